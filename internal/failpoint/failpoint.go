// Package failpoint marks places in the program where a crash test can kill the process or make it fail. Without the
// build tag "failpoint" a mark costs nothing. With it, the environment variable BLANKOUT_FAILPOINTS sets the action at
// each place:
//
//	BLANKOUT_FAILPOINTS=checkpoint.rename=kill@3,run.commit=error@2
//
// kills the process on the third arrival at checkpoint.rename, and makes the second arrival at run.commit return an
// error. Without @n every arrival counts.
//
// The actions are kill, error, panic, slow (it sleeps for a quarter of a second) and memory (it allocates until the Go
// runtime gets no more memory and ends the process). PLACE=ACTION:FILE acts only while that file exists. NAME=NUMBER
// sets the result of Number for that name, a setting that only tests change.
package failpoint

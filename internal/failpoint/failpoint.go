// Package failpoint marks the places in the program where a crash test can kill it or make it fail. Without the build
// tag "failpoint" a mark costs nothing. With it, the environment variable BLANKOUT_FAILPOINTS determines what happens
// where:
//
//	BLANKOUT_FAILPOINTS=checkpoint.rename=kill@3,run.commit=error@2
//
// kills the process on the third arrival at checkpoint.rename, and makes the second arrival at run.commit return an
// error. Without @n every arrival counts. The actions are kill, error, panic, slow, which takes a quarter of a second,
// and memory, which allocates until the Go runtime gets no more memory and ends the process. PLACE=ACTION:FILE acts
// only while that file exists. NAME=NUMBER sets the result of Number for that name, a setting that only tests change.
package failpoint

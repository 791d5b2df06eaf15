// Package failpoint marks places in the program where a crash test can kill the process or make it fail. A mark costs
// nothing without the build tag "failpoint". If the program has the tag, the environment variable BLANKOUT_FAILPOINTS
// sets the action at each place:
//
//	BLANKOUT_FAILPOINTS=checkpoint.rename=kill@3,run.commit=error@2
//
// kills the process on the third arrival at checkpoint.rename, and makes the second arrival at run.commit return an
// error. An action without @n acts on every arrival.
//
// The actions are kill, error, panic, slow and memory. slow sleeps for a quarter of a second. memory allocates until
// the Go runtime gets no more memory and ends the process. PLACE=ACTION:FILE acts only while that file exists.
// NAME=NUMBER sets the result of Number for that name, a setting that only tests change.
package failpoint

// Package failpoint marks the places of the program where a crash test may
// kill it or make it fail. Without the build tag "failpoint" a mark costs
// nothing; with it, the environment variable BLANKOUT_FAILPOINTS says what
// happens where:
//
//	BLANKOUT_FAILPOINTS=checkpoint.rename=kill@3,run.commit=error@2
//
// kills the process on the third arrival at checkpoint.rename, and makes the
// second arrival at run.commit return an error. Without @n every arrival counts.
// The actions are kill, error, panic, slow, which takes a quarter of a second, and
// memory, which allocates until the Go runtime is refused more and ends the process.
// PLACE=ACTION:FILE acts only while that file exists. NAME=NUMBER is what Number returns of
// that name, a setting that only tests change.
package failpoint

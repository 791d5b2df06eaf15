// Command blankout learns linear classifiers from a Kafka topic, event by
// event, so that they keep working when features go missing.
//
// Start with blankout demo. docs/start.md links to all pages, and blankout help
// lists the commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // for record.timezone, where the system has no database of zones
)

func main() {
	// A panic, or a failed allocation of the Go runtime, ends the program with SIGABRT. The runtime's own exit code
	// would be 2, which means a wrong configuration and keeps a supervisor such as systemd from restarting the program.
	debug.SetTraceback("crash")
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // set by nohup
		signals = append(signals, syscall.SIGHUP) // the terminal is gone: save and stop
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

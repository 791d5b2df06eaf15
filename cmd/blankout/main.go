// Command blankout learns linear models from a Kafka topic, event by event. The models keep predicting well if features
// are missing.
//
// Start with blankout demo. README.md links to all pages, and blankout help lists the commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"
	_ "time/tzdata" // for record.timezone, if the system has no time zone database
)

func main() {
	// A panic, or a failed allocation of the Go runtime, ends the program with SIGABRT. Otherwise the runtime's exit
	// code would be 2. This code means a wrong configuration, so a supervisor such as systemd would not restart the
	// program.
	debug.SetTraceback("crash")
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup makes the program ignore SIGHUP
		signals = append(signals, syscall.SIGHUP) // the terminal was closed: save and stop
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	// The first signal stops the program in order. A second signal within a second belongs to the same request, because
	// timeout(1) and supervisors signal a process and its group. A later signal ends the program at once.
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	code := execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

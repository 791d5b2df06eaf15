//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// onValidateSignal calls f for every SIGUSR1. The returned function stops the calls and waits until the last call of f
// has ended.
func onValidateSignal(f func()) (stop func()) { return onSignal(syscall.SIGUSR1, f) }

// onReloadSignal calls f for every SIGHUP, so the signal no longer stops the program. The returned function restores
// the previous action. If SIGHUP is ignored, as under nohup, the signal stays ignored.
func onReloadSignal(f func()) (stop func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return func() {}
	}
	signal.Ignore(syscall.SIGHUP) // main uses the signal to stop the program
	return onSignal(syscall.SIGHUP, f)
}

// onSignal calls f for every signal s. The returned function stops the calls.
func onSignal(s os.Signal, f func()) (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, s)
	go func() {
		defer close(done)
		for range signals {
			f()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

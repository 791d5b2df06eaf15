//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// onValidateSignal calls f for every SIGUSR1 until the stop it returns, which
// waits for the last call.
func onValidateSignal(f func()) (stop func()) { return onSignal(syscall.SIGUSR1, f) }

// onReloadSignal calls f for every SIGHUP, which then stops the program no more, until the
// stop it returns. Where SIGHUP is ignored, as under nohup, it stays so.
func onReloadSignal(f func()) (stop func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return func() {}
	}
	signal.Ignore(syscall.SIGHUP) // main asked for it to stop the program
	return onSignal(syscall.SIGHUP, f)
}

// onSignal calls f for every signal of a kind until the stop it returns.
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

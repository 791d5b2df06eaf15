//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// onValidateSignal calls f for every SIGUSR1. The returned function stops the calls and waits until the last call of f
// has ended.
func onValidateSignal(f func()) (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGUSR1)
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

//go:build !unix

package main

// onValidateSignal does nothing, because this system has no SIGUSR1.
func onValidateSignal(func()) (stop func()) { return func() {} }

// onReloadSignal does nothing, because this system has no SIGHUP.
func onReloadSignal(func()) (stop func()) { return func() {} }

//go:build !unix

package main

// onValidateSignal does nothing, because this system has no SIGUSR1.
func onValidateSignal(func()) (stop func()) { return func() {} }

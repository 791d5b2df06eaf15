//go:build !unix

package main

// onValidateSignal does nothing where there is no SIGUSR1.
func onValidateSignal(func()) (stop func()) { return func() {} }

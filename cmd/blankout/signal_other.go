//go:build !unix

package main

// onValidateSignal does nothing where there is no SIGUSR1.
func onValidateSignal(func()) (stop func()) { return func() {} }

// onReloadSignal does nothing where there is no SIGHUP.
func onReloadSignal(func()) (stop func()) { return func() {} }

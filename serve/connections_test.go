package serve_test

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"

	"blankout/internal/must"
	"blankout/serve"
)

// TestTakenPort checks that the error for a port in use names the process that uses it, and explains how to choose
// another port.
func TestTakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer l.Close()
	_, service := learned(t)
	c := serve.DefaultConfig()
	c.Address = l.Addr().String()
	_, err = serve.Start(c, service, slog.New(slog.DiscardHandler))
	if err == nil || !strings.HasPrefix(err.Error(), "http: address "+c.Address+" is taken by ") || !strings.Contains(err.Error(), "--set http.address=HOST:PORT") {
		t.Fatalf("%v", err)
	}
	if runtime.GOOS == "linux" && !strings.Contains(err.Error(), fmt.Sprintf("taken by process %d (", os.Getpid())) {
		t.Errorf("%v does not name this process, %d", err, os.Getpid())
	}
}

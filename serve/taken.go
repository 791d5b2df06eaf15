package serve

// This file holds the error of an address that another program listens on.

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// taken adds to the error of listening on an address that is in use which process uses
// it, and what to do about it.
func taken(address string, err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("http: %w", err)
	}
	who := "another program"
	if _, port, err := net.SplitHostPort(address); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			who = listening(uint16(n), who)
		}
	}
	return fmt.Errorf("http: address %s is taken by %s: choose another with --set http.address=HOST:PORT (port 0 takes a free one), or serve nothing with --set http.address=: %w", address, who, err)
}

// listening names the process that listens on a port, as far as Linux lets this
// one see it, else it returns otherwise.
func listening(port uint16, otherwise string) string {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			// number, local address:port, remote one, state (0A listens), …, inode
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" || !strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				continue
			}
			links, err := filepath.Glob("/proc/[0-9]*/fd/*")
			if err != nil {
				return otherwise
			}
			for _, link := range links {
				if to, err := os.Readlink(link); err != nil || to != "socket:["+f[9]+"]" {
					continue
				}
				process := strings.Split(link, "/")[2]
				if name, err := os.ReadFile(filepath.Join("/proc", process, "comm")); err == nil {
					return fmt.Sprintf("process %s (%s)", process, strings.TrimSpace(string(name)))
				}
			}
		}
	}
	return otherwise
}

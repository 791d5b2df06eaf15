package serve

// This file limits the number of open connections.

import (
	"container/list"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// connections limits the number of open connections, so that file descriptors remain for checkpoints and brokers. If
// another client connects at the limit, the connection that has been idle longest is closed. If no connection is idle,
// the new connection waits.
type connections struct {
	places chan struct{} // holds one element for each connection

	mu   sync.Mutex
	idle list.List // elements are *connection, longest idle first
}

// boundListener is a Listener with the limit on connections.
type boundListener struct {
	net.Listener
	connections *connections
	done        chan struct{}
	close       func()
}

func (l *boundListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := l.connections
	select {
	case c.places <- struct{}{}:
	default:
		c.closeIdle()
		select {
		case c.places <- struct{}{}:
		case <-l.done:
			conn.Close()
			return nil, net.ErrClosed
		}
	}
	return &connection{TCPConn: conn.(*net.TCPConn), leave: sync.OnceFunc(func() { <-c.places })}, nil
}

func (l *boundListener) Close() error {
	l.close()
	return l.Listener.Close()
}

// connection is a connection that counts towards the limit. It has all methods of *net.TCPConn. Package http needs the
// method CloseWrite to deliver the end of a response to a client that is still sending.
type connection struct {
	*net.TCPConn
	leave func()
	place *list.Element // element of connections.idle; nil if the connection is not idle
}

func (c *connection) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}

// note is the ConnState callback of http.Server.
func (c *connections) note(conn net.Conn, state http.ConnState) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	one := conn.(*connection)
	c.mu.Lock()
	defer c.mu.Unlock()
	if one.place != nil {
		c.idle.Remove(one.place)
		one.place = nil
	}
	if state == http.StateNew || state == http.StateIdle {
		one.place = c.idle.PushBack(one)
	}
}

// closeIdle closes the connection that has been idle longest, if any connection is idle.
func (c *connections) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first := c.idle.Front(); first != nil {
		one := c.idle.Remove(first).(*connection)
		one.place = nil
		one.Close() // the server then removes the connection from the list
	}
}

// bounded returns the number of connections that a process may have. The result is at most max, and at most a quarter
// of the given number of file descriptors. If descriptors is 0, the number of descriptors is unknown.
func bounded(max int, descriptors uint64) int {
	if quarter := descriptors / 4; quarter > 0 && quarter < uint64(max) {
		return int(quarter)
	}
	return max
}

// addressInUse adds advice to the error for an address in use.
func addressInUse(address string, err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("http: %w", err)
	}
	return fmt.Errorf("http: address %s is taken by another program: choose another with --set http.address=HOST:PORT (port 0 takes a free port), or disable HTTP with --set http.address=: %w", address, err)
}

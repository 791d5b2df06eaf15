package serve

// This file holds the bound on open connections.

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// connections bounds how many connections are open at a time, so that descriptors
// are left for checkpoints and brokers. When all places are taken and another
// client comes, the connection goes that has been without a request for longest;
// while there is none the new one waits.
type connections struct {
	places chan struct{} // holds one for each connection
	closed atomic.Uint64 // for want of a place

	mu   sync.Mutex
	idle list.List // of *connection, idle for longest first
}

func newConnections(most int) *connections {
	return &connections{places: make(chan struct{}, most)}
}

// listen returns l with the bound.
func (c *connections) listen(l net.Listener) net.Listener {
	done := make(chan struct{})
	return &boundListener{Listener: l, connections: c, done: done, close: sync.OnceFunc(func() { close(done) })}
}

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

// A connection keeps all of a *net.TCPConn's methods: package http needs CloseWrite to
// deliver the end of an answer to a client that is still sending.
type connection struct {
	*net.TCPConn
	leave func()
	place *list.Element // in idle, nil if it is not there
}

func (c *connection) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}

// note is the http.Server's ConnState.
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

// closeIdle closes the connection that has been idle for longest, if there is any.
func (c *connections) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first := c.idle.Front(); first != nil {
		one := c.idle.Remove(first).(*connection)
		one.place = nil
		c.closed.Add(1)
		one.Close() // its server notices and is done with it
	}
}

// bounded returns how many of max connections a process of so many descriptors,
// 0 if that is not known, may have: a quarter of them at most.
func bounded(max int, descriptors uint64) int {
	if quarter := descriptors / 4; quarter > 0 && quarter < uint64(max) {
		return int(quarter)
	}
	return max
}

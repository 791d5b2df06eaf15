package tests

import (
	"net"
	"sync"
	"testing"
	"time"
)

// tcpProxy forwards connections to a target, and can simulate faults of the network.
type tcpProxy struct {
	listener net.Listener
	target   string

	working sync.WaitGroup
	mu      sync.Mutex
	fault   netFault
	changed chan struct{} // closed when fault changes
	conns   map[net.Conn]bool
}

// netFault describes the faults of a tcpProxy. The zero value means no fault.
type netFault struct {
	delay  time.Duration // delay of every piece of data, in both directions
	refuse bool          // all current and new connections are closed
	hole   bool          // no data passes, and connections stay open
	deaf   bool          // requests pass, responses do not
	tear   bool          // connections are closed in the middle of a response
}

func startProxy(t *testing.T, listener net.Listener, target string) *tcpProxy {
	p := &tcpProxy{listener: listener, target: target, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	p.working.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // the proxy was closed
			}
			p.working.Go(func() { p.pass(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.set(netFault{refuse: true})
		p.working.Wait()
	})
	return p
}

func (p *tcpProxy) set(f netFault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
	if f.refuse {
		for c := range p.conns {
			c.Close()
		}
	}
}

func (p *tcpProxy) now() (netFault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}

// pass forwards one connection until the client or the target ends it.
func (p *tcpProxy) pass(client net.Conn) {
	defer client.Close()
	server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	refused := p.fault.refuse
	if !refused {
		p.conns[client], p.conns[server] = true, true
	}
	p.mu.Unlock()
	if refused {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(server, client, false) })
	both.Go(func() { p.copy(client, server, true) })
	both.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

// copy forwards data as the current fault allows. At the end it closes both connections.
func (p *tcpProxy) copy(to, from net.Conn, answers bool) {
	defer to.Close()
	defer from.Close()
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		f, changed := p.now()
		for f.hole || f.deaf && answers {
			<-changed
			f, changed = p.now()
		}
		time.Sleep(f.delay)
		torn := f.tear && answers
		if torn {
			n /= 2
		}
		if _, err := to.Write(piece[:n]); err != nil || torn {
			return
		}
	}
}

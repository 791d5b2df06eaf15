package serve

// This file limits concurrent requests and slow clients.

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// gate limits the number of concurrent requests to the capacity of places. gateQueue times as many requests may wait
// for up to gateWait. All further requests are rejected.
type gate struct {
	places   chan struct{} // holds one element for each running request
	active   atomic.Int64  // number of running and waiting requests
	answered atomic.Uint64
	failed   atomic.Uint64
	turned   atomic.Uint64 // number of rejected requests
}

const (
	gateWait  = time.Second
	gateQueue = 16
)

// enter waits for a place. If it returns true, the caller must call leave. If it returns false, the request has been
// answered or its client has disconnected.
func (g *gate) enter(w http.ResponseWriter, r *http.Request) bool {
	if g.wait(r) {
		return true
	}
	g.active.Add(-1)
	if r.Context().Err() == nil {
		g.turned.Add(1)
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusServiceUnavailable, "too many requests at once", r.URL.Path)
	}
	return false
}

func (g *gate) wait(r *http.Request) bool {
	if g.active.Add(1) > int64((1+gateQueue)*cap(g.places)) {
		return false
	}
	ctx, cancel := context.WithTimeout(r.Context(), gateWait)
	defer cancel()
	select {
	case g.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// leave releases the place and counts the request as answered or failed.
func (g *gate) leave(answered bool) {
	if answered {
		g.answered.Add(1)
	} else {
		g.failed.Add(1)
	}
	g.active.Add(-1)
	<-g.places
}

// emit emits the counters. The argument name is the start of the names of the metrics.
func (g *gate) emit(name string, emit emitter) {
	emit.counts(name+"_total", map[string]uint64{"answered": g.answered.Load(), "failed": g.failed.Load(), "turned-away": g.turned.Load()})
	emit(name+"_active", float64(g.active.Load()))
}

// taker writes to a client and limits the total time that it waits for the client, patience. If perSecond is above 0,
// patience grows by a second for each perSecond bytes that the client receives, up to most.
type taker struct {
	w         http.ResponseWriter
	control   *http.ResponseController
	most      time.Duration
	patience  time.Duration // remaining part of most
	perSecond int
	began     bool // whether something has been written
}

func newTaker(w http.ResponseWriter, patience time.Duration, perSecond int) *taker {
	return &taker{w: w, control: http.NewResponseController(w), most: patience, patience: patience, perSecond: perSecond}
}

func (t *taker) Write(p []byte) (n int, err error) {
	for err == nil && n < len(p) {
		var m int
		m, err = t.write(p[n:min(len(p), n+1<<16)])
		n += m
	}
	return n, err
}

func (t *taker) write(p []byte) (int, error) {
	t.began = true
	now := time.Now()
	// Writes fail after this deadline. The error is ignored, because writers that do not support deadlines do not wait.
	_ = t.control.SetWriteDeadline(now.Add(t.patience))
	n, err := t.w.Write(p)
	t.patience -= time.Since(now)
	if t.perSecond > 0 {
		t.patience = min(t.most, t.patience+time.Duration(n)*time.Second/time.Duration(t.perSecond))
	}
	return n, err
}

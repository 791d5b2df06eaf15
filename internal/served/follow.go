package served

// This file reads models from all places that can have one, and follows newer ones there.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/secret"
	"blankout/stream/record"
)

// Options configure how a model is requested. The zero value suffices on loopback.
type Options struct {
	Token    string        // for the server, "" if it needs none
	Client   *http.Client  // nil for one that gives up after a minute
	Interval time.Duration // between checks of Follow; 0 means a second
	MaxBytes int64         // largest size of a model; 0 means 4 GiB
	// Schemes open addresses with their scheme and ://, such as kafka (package served/kafka). Addresses of servers and
	// files need none.
	Schemes map[string]Opener
	// Record is the format of events if the model does not have it, as a model trained from files; nil means the
	// defaults.
	Record *record.Config
	// Missing is the missing policy that replaces the model's own; "" and model.MissingAuto keep that.
	Missing model.MissingPolicy
	// Wait lets Follow start if no model has been published yet, or if the server does not answer.
	Wait bool
	// Updated is called with every newer model after the first one of Follow, on the Follower's goroutine: until it
	// returns there is no other call, and nothing newer is read. It may be nil.
	Updated func(*Model)
	// Log receives a message when Follow cannot check for a newer model, and when it can again; it may be nil.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	c := *patient
	c.CheckRedirect = nil
	if o.Client != nil {
		c = *o.Client
	}
	c.CheckRedirect = keepToken(c.CheckRedirect)
	o.Client = &c
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 4 << 30
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Record == nil {
		c := record.DefaultConfig()
		o.Record = &c
	}
	return o
}

var patient = secret.Client(nil)

// keepToken returns a redirect check that removes the token from a request to another server than the first; check is
// the original one, nil for that of package http. Package http considers servers on one host equal, whatever their
// port.
func keepToken(check func(*http.Request, []*http.Request) error) func(*http.Request, []*http.Request) error {
	return func(r *http.Request, via []*http.Request) error {
		if !secret.SameOrigin(r, via) {
			r.Header.Del("Authorization")
		}
		switch {
		case check != nil:
			return check(r, via)
		case len(via) >= 10:
			return errors.New("stopped after 10 redirects")
		}
		return nil
	}
}

// Opener opens the Source at an address. The Options are complete: zero values have been replaced by defaults.
type Opener func(where string, o Options) (Source, error)

// Open reads a Model from where: the address of a server (http:// or https://), an address with one of Options.Schemes,
// a file, or a directory of checkpoints.
func Open(ctx context.Context, where string, o Options) (*Model, error) {
	s, err := NewSource(where, o)
	if err != nil {
		return nil, err
	}
	m, err := s.Look(ctx)
	return m, errors.Join(err, s.Close())
}

// forced is a source whose models have another missing policy.
type forced struct {
	Source
	rule model.MissingPolicy
}

func (f forced) Look(ctx context.Context) (*Model, error) {
	m, err := f.Source.Look(ctx)
	if m != nil {
		m.Missing = m.Missing.Forced(f.rule)
	}
	return m, err
}

// Source is a place where newer models appear. It belongs to one goroutine.
type Source interface {
	// Look returns the newest model, or nil if it is the one that Look returned last. After an error it may be called
	// again.
	Look(ctx context.Context) (*Model, error)
	Close() error
}

// NewSource returns the Source at an address that Open accepts. The caller closes it.
func NewSource(where string, o Options) (Source, error) {
	o = o.withDefaults()
	s, err := sourceAt(where, o)
	if err != nil || o.Missing == "" {
		return s, err
	}
	return forced{s, o.Missing}, nil
}

func sourceAt(where string, o Options) (Source, error) {
	scheme, _, isAddress := strings.Cut(where, "://")
	if open := o.Schemes[scheme]; isAddress && open != nil {
		return open(where, o)
	}
	switch {
	case !isAddress:
		return &file{path: where, options: o}, nil
	case scheme == "http", scheme == "https":
		u, err := url.Parse(where)
		if err != nil {
			return nil, fmt.Errorf("%s: not an address", event.Address(where))
		}
		if u.Path == "" || u.Path == "/" {
			u.Path = "/v1/model"
		}
		return &server{url: u, where: event.Address(u.String()), options: o}, nil
	}
	return nil, fmt.Errorf("%s: no model can be read from an address that begins with %s:// (want http, https or one of Options.Schemes: %q)", event.Address(where), scheme, slices.Sorted(maps.Keys(o.Schemes)))
}

// server is a learner's HTTP server.
type server struct {
	url     *url.URL
	where   event.Address // the URL, for errors
	options Options
	tag     string // of the last model
}

func (s *server) Close() error { return nil }

func (s *server) Look(ctx context.Context) (*Model, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return nil, err
	}
	if s.tag != "" {
		request.Header.Set("If-None-Match", s.tag)
	}
	if s.options.Token != "" {
		request.Header.Set("Authorization", "Bearer "+s.options.Token)
	}
	// A transport that requests gzip by itself also unpacks the response, up to a thousand bytes per byte sent; and
	// gzip hardly makes a model smaller.
	request.Header.Set("Accept-Encoding", "identity")
	response, err := s.options.Client.Do(request)
	if err != nil {
		return nil, event.HideAddresses(err)
	}
	defer response.Body.Close()
	if coding := response.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, fmt.Errorf("%s: the answer is compressed (%.20q), which was not asked for", s.where, coding)
	}
	if response.StatusCode == http.StatusNotModified {
		return nil, nil
	}
	limit := s.options.MaxBytes
	if response.StatusCode != http.StatusOK {
		limit = 1 << 10
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", s.where, err)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s: %s", s.where, response.Status, strings.TrimSpace(string(data)))
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("%s: the model has more than %d bytes", s.where, limit)
	}
	f, err := checkpoint.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.where, err)
	}
	m, err := FromFile(f, s.options.Record)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.where, err)
	}
	s.tag = response.Header.Get("ETag")
	return m, nil
}

// file is a model file, or a directory of checkpoints, of which the newest is used. A writer replaces files, as
// checkpoint.WriteFile does, so another file with the name is another model.
type file struct {
	path    string
	options Options
	last    os.FileInfo // of the last model
}

func (s *file) Close() error { return nil }

func (s *file) Look(context.Context) (*Model, error) {
	path, err := checkpoint.Newest(s.path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if s.last != nil && os.SameFile(info, s.last) && info.ModTime().Equal(s.last.ModTime()) && info.Size() == s.last.Size() {
		return nil, nil
	}
	if info.Size() > s.options.MaxBytes {
		return nil, fmt.Errorf("%s: the model has more than %d bytes", path, s.options.MaxBytes)
	}
	f, err := checkpoint.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := FromFile(f, s.options.Record)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.last = info
	return m, nil
}

// ReadFile reads a Model from a file, or from the newest checkpoint of a directory.
func ReadFile(path string) (*Model, error) {
	return Open(context.Background(), path, Options{})
}

// Follower has the newest model.
type Follower struct {
	stop      context.CancelFunc
	done      chan struct{}
	mu        sync.RWMutex
	model     *Model
	lastError error
}

// Follow reads a model as Open does and checks for a newer one every Options.Interval, until Close. If there is no
// model at first it fails, or continues to check with Options.Wait.
func Follow(ctx context.Context, where string, o Options) (*Follower, error) {
	o = o.withDefaults()
	s, err := NewSource(where, o)
	if err != nil {
		return nil, err
	}
	f := &Follower{done: make(chan struct{})}
	if !o.Wait {
		if f.model, err = s.Look(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	ctx, f.stop = context.WithCancel(context.Background())
	go func() {
		defer close(f.done)
		defer s.Close()
		f.follow(ctx, s, o, where)
	}()
	return f, nil
}

func (f *Follower) follow(ctx context.Context, s Source, o Options, where string) {
	tick := time.NewTicker(max(o.Interval, time.Millisecond))
	defer tick.Stop()
	told := "" // the error that has been logged
	for first := o.Wait; ; first = false {
		if !first {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		m, err := s.Look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && told != "":
			o.Log.Info("the model can be followed again", "where", event.Address(where))
			told = ""
		case err != nil && err.Error() != told:
			told = err.Error()
			o.Log.Warn("the model cannot be followed; it is tried again", "where", event.Address(where), "err", err)
		}
		newer := false
		f.mu.Lock()
		f.lastError = err
		// If several servers share an address, one may lag behind the others. A file that was never published has no
		// version.
		if err == nil && m != nil && (f.model == nil || m.Version > f.model.Version || m.At.After(f.model.At) || m.Version == 0) {
			f.model, newer = m, true
		}
		f.mu.Unlock()
		if newer && o.Updated != nil {
			o.Updated(m)
		}
	}
}

// Model returns the newest model, nil before the first (see Options.Wait), and the error of the last check for a newer
// one; the model is then still the last one.
func (f *Follower) Model() (*Model, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.model, f.lastError
}

// Close stops following.
func (f *Follower) Close() {
	f.stop()
	<-f.done
}

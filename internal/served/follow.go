package served

// This file reads a model from each place that can hold one, and follows newer ones there.

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

// Options say how a model is asked for. The zero value will do on loopback.
type Options struct {
	Token    string        // of the server, "" if it wants none
	Client   *http.Client  // nil is one that gives up after a minute
	Interval time.Duration // between two looks of Follow, 0 is a second
	MaxBytes int64         // of a model, 0 is 4 GiB
	// Schemes open the addresses that begin with a scheme of theirs and ://, such as
	// kafka (package served/kafka). Those of servers and files need none.
	Schemes map[string]Opener
	// Record says how events are written if the model does not know it, as one
	// trained from files; nil is the defaults.
	Record *record.Config
	// Missing is the rule for missing fields that takes the place of the model's
	// own; "" and model.MissingAuto leave it that.
	Missing model.MissingPolicy
	// Wait lets Follow begin where there is no model yet, or where nobody answers.
	Wait bool
	// Updated is called with every newer model that a Follower takes up after the first
	// that Follow waits for, by the Follower's goroutine: until it returns there is no
	// other call, and nothing newer is read. nil tells nobody.
	Updated func(*Model)
	// Log is told when Follow cannot look for a newer model, and when it can again;
	// nil tells nobody.
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

// keepToken is the check of a redirect, nil for that of package http, before
// which a request to another server than the first loses its token. Package http
// takes servers of one host for one, whatever their port.
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

// Opener opens the Source at an address. The Options are complete: what was left at zero
// has its default.
type Opener func(where string, o Options) (Source, error)

// Open reads a Model from where: the address of a server (http:// or https://), an address
// of one of Options.Schemes, a file, or a directory of checkpoints.
func Open(ctx context.Context, where string, o Options) (*Model, error) {
	s, err := NewSource(where, o)
	if err != nil {
		return nil, err
	}
	m, err := s.Look(ctx)
	return m, errors.Join(err, s.Close())
}

// forced is a source whose models answer by another rule for missing fields.
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
	// Look returns the newest model, nil if that is the one it returned last. After an
	// error it may be called again.
	Look(ctx context.Context) (*Model, error)
	Close() error
}

// NewSource returns the Source at an address that Open takes, which its caller closes.
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
	where   event.Address // url, for errors
	options Options
	tag     string // of the model returned last
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
	// A transport that asks for gzip by itself also unpacks the answer, up to a
	// thousand bytes for each that is sent; and gzip hardly makes a model smaller.
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

// file is a model file, or a directory of checkpoints of which the newest counts.
// A writer replaces files, as checkpoint.WriteFile does: another file under the
// name is another model.
type file struct {
	path    string
	options Options
	last    os.FileInfo // of the model returned last
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

// Follower keeps the newest model at hand.
type Follower struct {
	stop    context.CancelFunc
	done    chan struct{}
	mu      sync.RWMutex
	model   *Model
	trouble error
}

// Follow reads a model as Open does and looks for a newer one every
// Options.Interval, until Close. If there is none to begin with it fails, or
// with Options.Wait goes on looking.
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
	told := "" // the trouble that the log has been told of
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
		f.trouble = err
		// Where several servers share an address, one may lag behind the others. A
		// file that was never published has no version.
		if err == nil && m != nil && (f.model == nil || m.Version > f.model.Version || m.At.After(f.model.At) || m.Version == 0) {
			f.model, newer = m, true
		}
		f.mu.Unlock()
		if newer && o.Updated != nil {
			o.Updated(m)
		}
	}
}

// Model returns the newest model read, nil before the first (see Options.Wait), and
// the error of the last look for a newer one: the model is then as it was before.
func (f *Follower) Model() (*Model, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.model, f.trouble
}

// Close stops following.
func (f *Follower) Close() {
	f.stop()
	<-f.done
}

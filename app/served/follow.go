package served

// This file reads models from all kinds of addresses, and follows newer models there.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
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

// Options configure how a model is requested. The zero value suffices for servers on loopback.
type Options struct {
	Token    string        // bearer token for the server, "" if it needs none
	Client   *http.Client  // nil is a client with a timeout of one minute
	Interval time.Duration // time between checks of Follow; 0 is one second
	MaxBytes int64         // largest size of a model; 0 is 4 GiB
	// Schemes has an Opener for each further address scheme (the text before ://), such as kafka (package
	// served/kafka). Servers and files need none.
	Schemes map[string]Opener
	// Record is the format of events for a model that does not store it, such as a model trained from files; nil means
	// the defaults.
	Record *record.Config
	// Missing is the missing policy that replaces the model's policy; "" and model.MissingAuto keep it.
	Missing model.MissingPolicy
	// Wait lets Follow start if no model has been published yet, or if the server does not respond.
	Wait bool
	// Updated is called with every newer model after the first one of Follow, on the Follower's goroutine. Until
	// Updated returns, it is not called again and no newer model is read. It may be nil.
	Updated func(*Model)
	// Damaged is called once for every published model of a shard that cannot be read, with the number of the shard. The
	// shard's older model, if there is one, and the other shards still answer. It may be nil.
	Damaged func(shard int, err error)
	// Log receives a message when Follow cannot check for a newer model, and another message when the check works
	// again. Log may be nil.
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
	o.MaxBytes, o.Log, o.Record = cmp.Or(o.MaxBytes, 4<<30), cmp.Or(o.Log, slog.New(slog.DiscardHandler)), cmp.Or(o.Record, new(record.DefaultConfig()))
	return o
}

var patient = secret.Client(nil)

// keepToken returns a redirect check that removes the token from a request to another server than the first. check is
// the original check; nil means the default of package http. Package http would treat all ports of a host as one
// server.
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

// Opener opens the Source at an address. Defaults have replaced the zero values of the Options.
type Opener func(where string, o Options) (Source, error)

// Open reads the Model at an address: a server (http:// or https://), an address with one of Options.Schemes, a file,
// or a directory of checkpoints or of shards.
func Open(ctx context.Context, where string, o Options) (*Model, error) {
	s, err := NewSource(where, o)
	if err != nil {
		return nil, err
	}
	m, err := s.Look(ctx)
	return m, errors.Join(err, s.Close())
}

// ForceMissing replaces the missing policies of a Model, or of all shards of a set, before the first prediction.
func (m *Model) ForceMissing(policy model.MissingPolicy) {
	m.Missing = m.Missing.Forced(policy)
	for _, shard := range m.Shards() {
		if shard != nil {
			shard.ForceMissing(policy)
		}
	}
}

// Source is a source of newer models. It belongs to one goroutine.
type Source interface {
	// Look returns the newest model, or nil if Look has already returned it. If Look returns an error, it may be called
	// again.
	Look(ctx context.Context) (*Model, error)
	Close() error
}

// NewSource returns the Source at an address that Open accepts. The caller must close it.
func NewSource(where string, o Options) (Source, error) {
	o = o.withDefaults()
	scheme, _, isAddress := strings.Cut(where, "://")
	if open := o.Schemes[scheme]; isAddress && open != nil {
		return open(where, o)
	}
	switch {
	case !isAddress:
		if shards := ShardDirectories(where); len(shards) > 0 {
			d := &directories{}
			for _, path := range shards {
				d.files = append(d.files, &file{path: path, options: o})
			}
			return d, nil
		}
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
	where   event.Address // URL, for errors
	options Options
	tag     string // entity tag of the latest model
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
	// Request no compression. If the transport requests gzip itself, it also decompresses the response, up to a
	// thousandfold. And gzip hardly makes a model smaller.
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
	m, err := s.options.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.where, err)
	}
	s.tag = response.Header.Get("ETag")
	return m, nil
}

// file is a model file, or a directory of checkpoints whose newest checkpoint is used. Writers replace files, as
// checkpoint.WriteFile does. So a new file with the same name is a new model.
type file struct {
	path    string
	options Options
	last    os.FileInfo // file of the latest model
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
	m, err := s.options.FromFile(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.last = info
	return m, nil
}

// ShardDirectories returns the subdirectories shard-K of a directory with the checkpoints of several shards, by number. It
// returns nil for other directories.
func ShardDirectories(path string) (shards []string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() && event.ShardNumber(e.Name()) >= 0 {
			shards = append(shards, filepath.Join(path, e.Name()))
		}
	}
	slices.SortFunc(shards, func(a, b string) int {
		return cmp.Compare(event.ShardNumber(filepath.Base(a)), event.ShardNumber(filepath.Base(b)))
	})
	return shards
}

// directories is the Source of the newest checkpoints of several shards.
type directories struct {
	files  []*file
	models []*Model // by number; nil before the first
}

func (d *directories) Close() error { return nil }

func (d *directories) Look(ctx context.Context) (*Model, error) {
	newer := false
	var none error
	for _, f := range d.files {
		m, err := f.Look(ctx)
		switch {
		case errors.Is(err, checkpoint.ErrNone):
			none = err
		case err != nil:
			return nil, err
		case m == nil:
		case m.Shard == nil || event.ShardName(m.Shard.Number) != filepath.Base(f.path) || d.models != nil && len(d.models) != m.Shard.Shards:
			return nil, fmt.Errorf("%s: the checkpoint is of another shard, or of another number of shards", f.path)
		default:
			if d.models == nil {
				d.models = make([]*Model, m.Shard.Shards)
			}
			d.models[m.Shard.Number], newer = m, true
		}
	}
	switch {
	case newer:
		return NewSet(d.models), nil
	case !slices.ContainsFunc(d.models, func(m *Model) bool { return m != nil }):
		return nil, none
	}
	return nil, nil
}

// Follower has the newest model.
type Follower struct {
	stop      context.CancelFunc
	done      chan struct{}
	mu        sync.RWMutex
	model     *Model
	lastError error
}

// Follow reads a model as Open does, and checks for a newer model every Options.Interval until Close. If there is no
// model at first, Follow fails, or continues to check if Options.Wait is set.
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
	told := "" // the latest logged error
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
		// If several servers share an address, one server may have an older model than another server. A file that was
		// never published has version 0.
		if err == nil && m != nil && (f.model == nil || m.Version > f.model.Version || m.At.After(f.model.At) || m.Version == 0) {
			f.model, newer = m, true
		}
		f.mu.Unlock()
		if newer && o.Updated != nil {
			o.Updated(m)
		}
	}
}

// Model returns the newest model and the error of the latest check. If the check failed, the model is still the newest
// model that was read. It is nil before the first model (see Options.Wait).
func (f *Follower) Model() (*Model, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.model, f.lastError
}

// Close stops following and waits for the Follower's goroutine.
func (f *Follower) Close() {
	f.stop()
	<-f.done
}

// Package serve provides a running learner over HTTP: a web page, Prometheus metrics, health and readiness, the current
// model, and its predictions.
//
// A [Server] only reads the data that the run publishes. These data are immutable values behind atomic pointers, so
// requests never delay learning. By default the server listens on loopback.
package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/app/shards"
	"blankout/internal/event"
	"blankout/serve/predict"
	"blankout/stream"
	"blankout/stream/registry"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Config is the section [http] of the configuration. config/blankout.toml explains each key. The comments here add what
// Go callers need.
type Config struct {
	Address string `toml:"address"` // host:port to listen on; "" starts no server, port 0 chooses a free port
	// Public allows an address that other machines can reach, without a token or without TLS. Every client that can
	// reach the address can then read the model and request predictions.
	Public bool     `toml:"public"`
	Hosts  []string `toml:"hosts"`
	// TokenFile is the file with the token and, if TokenFile is "", TokenEnv is the environment variable with the
	// token. Every request except health checks must send the token. If there is no token, requests need none.
	TokenEnv       string        `toml:"-"`
	TokenFile      string        `toml:"token_file"` // a final newline in the file is ignored
	CertFile       string        `toml:"cert_file"`
	KeyFile        string        `toml:"key_file"`
	ClientCAFile   string        `toml:"client_ca_file"`
	MaxBody        int64         `toml:"-"`
	MaxPredicting  int           `toml:"-"`
	ClientTimeout  time.Duration `toml:"-"`
	AnswerTimeout  time.Duration `toml:"-"`
	MaxConnections int           `toml:"-"`
	Name           string        `toml:"-"` // name of this learner, for display
	Unseen         string        `toml:"unseen"`
	Learn          bool          `toml:"learn"` // accept events to learn
}

// The values of Config.Unseen.
const unseenRefuse, unseenAnswer = "refuse", "answer"

// DefaultConfig returns the settings of an empty section.
func DefaultConfig() Config {
	return Config{Address: "127.0.0.1:8642", TokenEnv: "BLANKOUT_HTTP_TOKEN", MaxBody: 8 << 20, MaxPredicting: 16, ClientTimeout: 10 * time.Second, AnswerTimeout: 30 * time.Second, MaxConnections: 1024, Unseen: unseenRefuse}
}

// Check returns the first error in the configuration, with its key.
func (c Config) Check() error {
	if c.Unseen != unseenRefuse && c.Unseen != unseenAnswer {
		return event.KeyErrorf("unseen", "unseen: %q, want %s or %s", c.Unseen, unseenRefuse, unseenAnswer)
	}
	if c.Address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(c.Address)
	if err != nil {
		return event.KeyErrorf("address", "address: %q, want host:port: %w", c.Address, err)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return event.KeyErrorf("address", "address: %q, want a port from 0 to 65535", c.Address)
	}
	return c.checkAccess(host)
}

// Service has the functions and data that a Server serves. Many goroutines call the functions concurrently.
type Service struct {
	Version string // version of the program
	// Status is the Status of a Runner; nil for a service that does not learn.
	Status func() *run.Status
	// Model returns the newest model, or nil if there is no model yet. It is the result of Newest for a Runner, or the
	// model of another learner that this service follows. The function itself may be nil.
	Model func() *served.Model
	// Source returns the counters of the Consumer, or nil before the Consumer is open. The function itself may be nil.
	Source func() *stream.ConsumerStats
	// Registry has the schemas of records; nil if records need no schemas.
	Registry *registry.Client
	// Predictions returns the state of predicting a topic; nil if no topic is predicted.
	Predictions func() *predict.Stats
	// Snapshots returns the destinations of models, or nil before the destinations are open. The function itself may be
	// nil.
	Snapshots func() *Snapshots
	// History is the file that keeps the page's history across restarts. "" keeps the history in memory only. If OnDisk
	// is true, no learner is running: the history file is read but not written.
	History string
	OnDisk  bool
	// Reports holds the validation reports; nil disables their endpoints.
	Reports *Reports
	// Recent returns some of the newest labeled events, oldest first. Requests that measure the model use these events.
	// Nil disables such requests.
	Recent func() []event.Example
	// Learner returns the newest model of the learner with the given name, or nil. The function itself is nil for a
	// single learner.
	Learner func(name string) *served.Model
	// Promote makes the named learner the leader. It returns once a checkpoint contains the change; see
	// run.Runner.Promote. Nil disables such requests.
	Promote func(ctx context.Context, name string) error
	// Validate requests a validation. Nil disables such requests.
	Validate func() error
	// Learn returns the Acceptor of events to learn, or nil while it is being opened. The function itself is nil if
	// events are not accepted.
	Learn func() Acceptor
	// Group returns the Status of a group member, or nil if there is no Status yet. The function itself is nil for a
	// learner without a group.
	Group func() *shards.Status
}

func (s Service) status() *run.Status {
	return cmp.Or(call(s.Status), &run.Status{NotReady: "not started"})
}

// call returns the result of f, or nil if f is nil.
func call[T any](f func() *T) *T {
	if f == nil {
		return nil
	}
	return f()
}

// notReady returns the reason why events are not being processed or predicted, or "" if the service is ready. The
// reason is the run's own reason, or partitions that cannot be read, or the Predictor's reason. A service without a run
// is not ready if there is no model.
func (s Service) notReady() string {
	why := s.status().NotReady
	if why == run.Ended {
		why = "" // the model is still served
	}
	if s.Status == nil { // this service does not learn
		if why = ""; s.Predictions == nil && s.model() == nil {
			why = "no model has been published yet"
		}
	}
	if source := call(s.Source); why == "" && source != nil {
		why = source.Failing()
	}
	if why == "" && s.Registry != nil {
		status := s.Registry.Status()
		why = cmp.Or(status.LastError, status.Refused)
	}
	// A learner that has not received an event yet is ready, although its Predictor waits for a model.
	if p := call(s.Predictions); why == "" && p != nil && p.LastError != "" && !(p.Waiting && s.Status != nil) {
		why = "predictions: " + p.LastError
	}
	return why
}

func (s Service) model() *served.Model { return call(s.Model) }

// Server is a listening HTTP server. Close ends its goroutines.
type Server struct {
	listener net.Listener
	http     *http.Server
	site     *site
	scheme   string
	log      *slog.Logger
	done     chan struct{}
	failed   error // reason why the server stopped; read it only after done is closed
}

// CheckSecrets reads the token and the certificate, and returns the first error.
func (c Config) CheckSecrets() error {
	if _, err := c.token(); err != nil {
		return err
	}
	_, err := c.certificate()
	return err
}

// certificate returns the TLS configuration with the server's certificate, or nil without TLS.
func (c Config) certificate() (*tls.Config, error) {
	if c.CertFile == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("cert_file, key_file: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// Start listens on the configured address and serves until Close.
func Start(c Config, s Service, log *slog.Logger) (*Server, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	token, err := c.token()
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	secure, err := c.certificate()
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	scheme := "http"
	if secure != nil {
		scheme = "https"
	}
	if c.ClientCAFile != "" {
		data, err := os.ReadFile(c.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("http: client_ca_file: %w", err)
		}
		secure.ClientCAs, secure.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !secure.ClientCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("http: client_ca_file: %s contains no PEM certificate", c.ClientCAFile)
		}
	}
	site := newSite(c, s)
	if s.History != "" {
		if err := site.history.open(s.History); err != nil {
			log.Warn(err.Error())
		}
	}
	listener, err := net.Listen("tcp", c.Address)
	if err != nil {
		return nil, addressInUse(c.Address, err)
	}
	done := make(chan struct{})
	listener = &boundListener{Listener: listener, connections: site.connections, done: done, close: sync.OnceFunc(func() { close(done) })}
	server := &Server{
		listener: listener,
		http: &http.Server{
			Handler:           guard(c, token, site.handler()),
			TLSConfig:         secure,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       30 * time.Second,
			WriteTimeout:      2 * time.Minute, // recording a profile takes long
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    1 << 16,
			ConnState:         site.connections.note,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
		site: site, scheme: scheme, log: log,
		done: make(chan struct{}),
	}
	go func() {
		defer close(server.done)
		var watching sync.WaitGroup
		watching.Go(func() { site.watch(log) })
		defer watching.Wait()
		answer := func() error { return server.http.Serve(listener) }
		if secure != nil {
			answer = func() error { return server.http.ServeTLS(listener, "", "") }
		}
		if err := answer(); !errors.Is(err, http.ErrServerClosed) {
			server.failed = err
			site.close()
			log.Error("the HTTP server has stopped", "err", err)
		}
	}()
	return server, nil
}

// URL returns the server's address, such as http://127.0.0.1:8642.
func (s *Server) URL() string { return s.scheme + "://" + s.listener.Addr().String() }

// Close stops the server. It waits for running requests until ctx ends, and then aborts the remaining requests. Aborted
// requests are not an error, because clients may retry.
func (s *Server) Close(ctx context.Context) error {
	s.site.close() // otherwise clients of /v1/events would never finish
	if err := s.http.Shutdown(ctx); err != nil {
		s.log.Warn("HTTP requests were interrupted by the stop", "err", errors.Join(err, s.http.Close()))
	}
	<-s.done
	return s.failed
}

// site handles all requests of a Server.
type site struct {
	config      Config
	service     Service
	collector   *collector
	models      *models
	history     history
	connections *connections
	listeners   chan struct{} // holds one element for each client of /v1/events
	closing     chan struct{}
	close       func()
	patterns    []string // patterns of the requests that handler handles
}

func newSite(c Config, s Service) *site {
	closing := make(chan struct{})
	models := newModels(c, s)
	connections := &connections{places: make(chan struct{}, bounded(c.MaxConnections, descriptors()))}
	return &site{
		config: c, service: s, collector: newCollector(s, models, connections), models: models, connections: connections,
		listeners: make(chan struct{}, min(maxListeners, max(1, cap(connections.places)/2))), closing: closing, close: sync.OnceFunc(func() { close(closing) }),
	}
}

func (t *site) handler() http.Handler {
	s, models := t.service, t.models
	registry := prometheus.NewRegistry()
	registry.MustRegister(t.collector, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.patterns = []string{"GET /metrics"}
	for _, x := range []struct {
		pattern string
		exists  bool
		answer  func(http.ResponseWriter, *http.Request) (ok bool)
	}{
		{"GET /healthz", true, func(w http.ResponseWriter, r *http.Request) bool {
			return reply(w, http.StatusOK, map[string]bool{"healthy": true})
		}},
		{"GET /readyz", true, t.ready},
		{"GET /{$}", true, servePage},
		{"GET /page/", true, servePage},
		{"GET /v1/events", true, t.events},
		{"GET /v1/features", s.Status != nil, t.features},
		{"GET /v1/newest", s.Status != nil, t.newest},
		{"GET /v1/measures", s.Status != nil, t.measures},
		{"GET /v1/model", true, models.get},
		{"GET /v1/model/offsets", true, models.offsets},
		{"GET /v1/model/largest", true, models.largest},
		{"GET /openapi.json", true, serveOpenAPI},
		{"POST /v1/predict", s.Model != nil, models.limited(models.predict)},
		{"POST /v1/learn", s.Learn != nil, models.limited(t.learn)},
		{"POST /v1/learn", s.Learn == nil, func(w http.ResponseWriter, r *http.Request) bool {
			return fail(w, http.StatusNotFound, "no events are learned over HTTP here: set http.learn", r.URL.Path)
		}},
		{"GET /v1/without", s.Model != nil && s.Recent != nil, t.omit},
		{"GET /v1/group", s.Group != nil, t.group},
		{"GET /v1/reports", s.Reports != nil, s.Reports.answerList},
		{"GET /v1/reports/{id}", s.Reports != nil, s.Reports.answer},
		{"GET /v1/learners", s.Status != nil, t.learners},
		{"POST /v1/promote", s.Promote != nil, t.promote},
		{"POST /v1/validate", s.Validate != nil, t.validate},
	} {
		if x.exists {
			mux.HandleFunc(x.pattern, func(w http.ResponseWriter, r *http.Request) { x.answer(w, r) })
			t.patterns = append(t.patterns, x.pattern)
		}
	}
	return jsonErrors(mux)
}

// openAPI is an OpenAPI 3.1 document of all requests that a Server handles, except profiles.

//go:embed openapi.json
var openAPI []byte

// serveOpenAPI handles GET /openapi.json.
func serveOpenAPI(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(openAPI)
	return err == nil
}

// ready handles GET /readyz.
func (t *site) ready(w http.ResponseWriter, r *http.Request) bool {
	if why := t.service.notReady(); why != "" {
		return fail(w, http.StatusServiceUnavailable, "not ready: "+why, "/readyz")
	}
	return reply(w, http.StatusOK, map[string]bool{"ready": true})
}

// group handles GET /v1/group.
func (t *site) group(w http.ResponseWriter, r *http.Request) bool {
	if status := t.service.Group(); status != nil {
		return reply(w, http.StatusOK, status)
	}
	return fail(w, http.StatusServiceUnavailable, "this member has not joined the group yet", r.URL.Path)
}

// validate handles POST /v1/validate.
func (t *site) validate(w http.ResponseWriter, r *http.Request) bool {
	if err := t.service.Validate(); err != nil {
		return fail(w, http.StatusConflict, err.Error(), r.URL.Path)
	}
	return reply(w, http.StatusAccepted, map[string]string{"reports": "/v1/reports"})
}

// reply writes a JSON response. It returns true, the result of a handler that has not failed.
func reply(w http.ResponseWriter, status int, body any) bool {
	data, err := json.Marshal(body)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be encoded as JSON","where":""}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)+1))
	w.WriteHeader(status)
	w.Write(append(data, '\n'))
	return true
}

// fail writes a JSON error with the fields what and where. It returns false, the result of a handler that has failed.
func fail(w http.ResponseWriter, status int, what, where string) bool {
	reply(w, status, map[string]string{"error": what, "where": where})
	return false
}

// asked returns the value of a numeric query parameter between least and most, or usual if the query does not have the
// parameter. If ok is false, it has sent an error response.
func asked(w http.ResponseWriter, r *http.Request, name, things string, least, most, usual int) (n int, ok bool) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return usual, true
	}
	n, err := strconv.Atoi(text)
	if err == nil && n >= least && n <= most {
		return n, true
	}
	to := "on"
	if most < math.MaxInt {
		to = "to " + strconv.Itoa(most)
	}
	return 0, fail(w, http.StatusBadRequest, fmt.Sprintf("%s=%.20q: want a number of %s from %d %s", name, text, things, least, to), "query")
}

// jsonErrors converts the mux's own errors, for unknown paths and methods, to the JSON form of all other errors. It
// refuses query parameters that the OpenAPI document does not describe.
func jsonErrors(mux *http.ServeMux) http.Handler {
	known := queryParameters()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		if pattern == "" {
			mux.ServeHTTP(&errorWriter{ResponseWriter: w, path: r.URL.Path}, r)
			return
		}
		if query, err := url.ParseQuery(r.URL.RawQuery); !strings.HasPrefix(pattern, "/debug/") {
			if err != nil {
				fail(w, http.StatusBadRequest, err.Error(), "query")
				return
			}
			names := known[pattern]
			for name := range query {
				if !slices.Contains(names, name) {
					fail(w, http.StatusBadRequest, fmt.Sprintf("unknown parameter %.40q: want one of %q", name, names), "query")
					return
				}
			}
		}
		mux.ServeHTTP(w, r)
	})
}

// queryParameters returns the names of the query parameters by pattern of the mux.
func queryParameters() map[string][]string {
	var document struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
		}
	}
	if err := json.Unmarshal(openAPI, &document); err != nil {
		panic(fmt.Sprintf("serve: the embedded OpenAPI document: %v", err))
	}
	names := map[string][]string{}
	for path, methods := range document.Paths {
		for method, operation := range methods {
			for _, p := range operation.Parameters {
				if pattern := strings.ToUpper(method) + " " + path; p.In == "query" {
					names[pattern] = append(names[pattern], p.Name)
				}
			}
		}
	}
	return names
}

type errorWriter struct {
	http.ResponseWriter
	path string
	once sync.Once
}

func (w *errorWriter) WriteHeader(status int) {
	w.once.Do(func() {
		if status >= 400 {
			fail(w.ResponseWriter, status, http.StatusText(status), w.path)
		} else { // the status is a redirect to the clean path
			w.ResponseWriter.WriteHeader(status)
		}
	})
}

func (w *errorWriter) Write(p []byte) (int, error) { return len(p), nil }

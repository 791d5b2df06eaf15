// Package serve shows a running learner over HTTP: a page for people, metrics for
// Prometheus, health and readiness, the current model, and predictions by it.
//
// A [Server] only reads what the run publishes, immutable values behind atomic
// pointers: however many ask, learning is not held up. It listens on loopback
// unless told otherwise.
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
	"net/http/pprof"
	"os"
	"strconv"
	"sync"
	"time"

	"blankout/internal/event"
	"blankout/internal/run"
	"blankout/internal/served"
	"blankout/online/group"
	"blankout/serve/predict"
	"blankout/stream"
	"blankout/stream/registry"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Config is the section [http] of the configuration. config/blankout.toml says what
// each key means; the comments here say what a program needs beyond that.
type Config struct {
	Address string `toml:"address"` // host:port to listen on; "" serves nothing, port 0 takes a free one
	// Public allows an address that other machines reach without a token or
	// without TLS: anyone who reaches it can read the model and ask for predictions.
	Public bool     `toml:"public"`
	Hosts  []string `toml:"hosts"`
	// The token that every request must bring, but those for health, is in the
	// file TokenFile, or else in the environment variable named TokenEnv; where
	// neither holds a token, requests need none.
	TokenEnv       string        `toml:"-"`
	TokenFile      string        `toml:"token_file"` // a newline at its end is dropped
	CertFile       string        `toml:"cert_file"`
	KeyFile        string        `toml:"key_file"`
	ClientCAFile   string        `toml:"client_ca_file"`
	Pprof          bool          `toml:"pprof"` // profiles under /debug/pprof
	MaxBody        int64         `toml:"-"`
	MaxPredicting  int           `toml:"-"`
	ClientTimeout  time.Duration `toml:"-"`
	AnswerTimeout  time.Duration `toml:"-"`
	MaxConnections int           `toml:"-"`
	Name           string        `toml:"name"` // of this learner, for people
	Unseen         string        `toml:"unseen"`
	Learn          bool          `toml:"learn"` // take events to be learned
}

// The values of Config.Unseen.
const unseenRefuse, unseenAnswer = "refuse", "answer"

// DefaultConfig returns the values of an empty section.
func DefaultConfig() Config {
	return Config{Address: "127.0.0.1:8642", TokenEnv: "BLANKOUT_HTTP_TOKEN", MaxBody: 8 << 20, MaxPredicting: 16, ClientTimeout: 10 * time.Second, AnswerTimeout: 30 * time.Second, MaxConnections: 1024, Unseen: unseenRefuse}
}

// Check returns the first thing wrong with the configuration; it names the key.
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

// Service is what a Server shows. Its functions are called by many goroutines.
type Service struct {
	Version string // of the program
	// Status is a Runner's; nil for a service that does not learn.
	Status func() *run.Status
	// Model returns the newest model, nil before the first: the Latest of a Runner, or
	// the one of a learner elsewhere that is followed. The function itself may be nil.
	Model func() *served.Model
	// Source returns the counters of the Consumer, or nil before it is open. The
	// function itself may be nil.
	Source func() *stream.ConsumerStats
	// Registry is where the schemas of records come from; nil if they need none.
	Registry *registry.Client
	// Predictions tells how a topic is being scored; nil if none is.
	Predictions func() *predict.Stats
	// Snapshots returns the places that models are handed on to, nil while there are
	// none. The function itself may be nil.
	Snapshots func() *Snapshots
	// DiskFree returns how many bytes are free where checkpoints are kept; may be nil.
	DiskFree func() (int64, error)
	// History names the file in which the page's history survives a restart; "" keeps it
	// in memory only. OnDisk says that nothing runs: the file is read and not written.
	History string
	OnDisk  bool
	// Reports are those of validations; nil serves none.
	Reports *Reports
	// Recent returns some of the newest events that had a label, the oldest first, for
	// questions about what the model would make of them; nil answers none.
	Recent func() []event.Example
	// Learner returns the newest model of the learner of a name, nil for none; the function is nil where one learner learns alone.
	Learner func(name string) *served.Model
	// Promote gives the lead to the learner of a name, and returns once a checkpoint has it; see run.Runner.Promote. nil takes no
	// such requests.
	Promote func(ctx context.Context, name string) error
	// Validate asks for a validation; nil takes no such requests.
	Validate func() error
	// Learn returns what takes events to be learned, nil while it is being opened; the function is nil where none are
	// taken.
	Learn func() Acceptor
	// Group returns the Status of a member of a group, nil before the first; nil for a
	// learner that is alone.
	Group func() *group.Status
}

func (s Service) status() *run.Status {
	if s.Status != nil {
		if status := s.Status(); status != nil {
			return status
		}
	}
	return &run.Status{NotReady: "not started"}
}

// notReady says why events are not being consumed, or not being scored, or of what only
// answers that there is no model: the run's
// own reason, partitions that cannot be read, the Predictor's. "" means that
// they are.
func (s Service) notReady() string {
	why := s.status().NotReady
	if why == run.Ended {
		why = "" // the model is served as before
	}
	if s.Status == nil { // nothing is to be learned here
		if why = ""; s.Predictions == nil && s.model() == nil {
			why = "there is no model yet"
		}
	}
	if why == "" {
		why = s.failing()
	}
	if why == "" && s.Registry != nil {
		status := s.Registry.Status()
		why = cmp.Or(status.Trouble, status.Refused)
	}
	if why == "" && s.Predictions != nil {
		// That a learner has not seen an event yet does not make the server unready.
		if p := s.Predictions(); p.Trouble != "" && !(p.Waiting && s.Status != nil) {
			why = "predictions: " + p.Trouble
		}
	}
	return why
}

// ready is the answer of /readyz when everything works.
type ready struct {
	Ready   bool   `json:"ready"`
	Waiting string `json:"waiting,omitempty"` // for what learning waits, as it should
}

func (s Service) waiting() string {
	v := s.status().Validation
	if v.Adopting == 0 {
		return ""
	}
	return fmt.Sprintf("learning waits for the exact solution over %d records, for %v so far", v.Adopting, v.Waiting().Round(time.Second))
}

func (s Service) failing() string {
	if s.Source == nil {
		return ""
	}
	source := s.Source()
	if source == nil {
		return ""
	}
	return source.Failing()
}

func (s Service) model() *served.Model {
	if s.Model == nil {
		return nil
	}
	return s.Model()
}

// Server is a listening HTTP server. Its goroutines end with Close.
type Server struct {
	listener net.Listener
	http     *http.Server
	site     *site
	scheme   string
	log      *slog.Logger
	done     chan struct{}
	failed   error // why it stopped; read after done
}

// CheckSecrets reads the token and the certificate, and returns the first thing
// wrong with them.
func (c Config) CheckSecrets() error {
	if _, err := c.token(); err != nil {
		return err
	}
	_, err := c.certificate()
	return err
}

// certificate returns what the server shows of itself, nil without TLS.
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

// Start listens on the configured address and answers until Close.
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
			return nil, fmt.Errorf("http: client_ca_file: %s holds no PEM certificate", c.ClientCAFile)
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
	listener = site.connections.listen(listener)
	server := &Server{
		listener: listener,
		http: &http.Server{
			Handler:           guard(c, token, site.handler()),
			TLSConfig:         secure,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       30 * time.Second,
			WriteTimeout:      2 * time.Minute, // a profile takes its time
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

// URL returns where the server listens, as in http://127.0.0.1:8642.
func (s *Server) URL() string { return s.scheme + "://" + s.listener.Addr().String() }

// Close answers the requests under way, until ctx ends, and stops. Those that are
// not done by then are cut off, which is no failure: their clients may ask again.
func (s *Server) Close(ctx context.Context) error {
	s.site.close() // clients that listen to events would never be done
	if err := s.http.Shutdown(ctx); err != nil {
		s.log.Warn("HTTP requests were cut off at the stop", "err", errors.Join(err, s.http.Close()))
	}
	<-s.done
	return s.failed
}

// site answers requests.
type site struct {
	config      Config
	service     Service
	collector   *collector
	models      *models
	history     history
	connections *connections
	watchers    chan struct{} // holds one for each listener to events
	closing     chan struct{}
	close       func()
	patterns    []string // of the requests that handler answers
}

func newSite(c Config, s Service) *site {
	closing := make(chan struct{})
	models := newModels(c, s)
	connections := newConnections(bounded(c.MaxConnections, descriptors()))
	return &site{
		config: c, service: s, collector: newCollector(s, models, connections), models: models, connections: connections,
		watchers: make(chan struct{}, min(maxWatchers, max(1, cap(connections.places)/2))), closing: closing, close: sync.OnceFunc(func() { close(closing) }),
	}
}

func (t *site) handler() http.Handler {
	c, s, models := t.config, t.service, t.models
	registry := prometheus.NewRegistry()
	registry.MustRegister(t.collector, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	mux := &router{ServeMux: http.NewServeMux()}
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusOK, map[string]bool{"healthy": true})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if why := s.notReady(); why != "" {
			fail(w, http.StatusServiceUnavailable, "not ready: "+why, "/readyz")
			return
		}
		reply(w, http.StatusOK, ready{true, s.waiting()})
	})
	mux.HandleFunc("GET /{$}", servePage)
	mux.HandleFunc("GET /page/", servePage)
	mux.HandleFunc("GET /v1/events", t.events)
	if s.Status != nil {
		mux.HandleFunc("GET /v1/features", t.features)
		mux.HandleFunc("GET /v1/newest", t.newest)
		mux.HandleFunc("GET /v1/measures", t.measures)
	}
	mux.HandleFunc("GET /v1/model", models.get)
	mux.HandleFunc("GET /v1/model/offsets", models.offsets)
	mux.HandleFunc("GET /v1/model/largest", models.largest)
	mux.HandleFunc("GET /openapi.json", serveOpenAPI)
	if s.Model != nil {
		mux.HandleFunc("POST /v1/predict", models.limited(models.predict))
		inference{models, s.Version}.routes(mux)
	}
	if s.Learn != nil {
		mux.HandleFunc("POST /v1/learn", models.limited(t.learn))
	}
	if s.Model != nil && s.Recent != nil {
		mux.HandleFunc("GET /v1/without", t.omit)
	}
	if s.Group != nil {
		mux.HandleFunc("GET /v1/group", func(w http.ResponseWriter, r *http.Request) {
			if status := s.Group(); status != nil {
				reply(w, http.StatusOK, status)
				return
			}
			fail(w, http.StatusServiceUnavailable, "the commit log has not been read yet", r.URL.Path)
		})
	}
	if s.Reports != nil {
		mux.HandleFunc("GET /v1/reports", s.Reports.answerList)
		mux.HandleFunc("GET /v1/reports/{id}", s.Reports.answer)
	}
	if s.Status != nil {
		mux.HandleFunc("GET /v1/learners", t.learners)
	}
	if s.Promote != nil {
		mux.HandleFunc("POST /v1/promote", t.promote)
	}
	if s.Validate != nil {
		mux.HandleFunc("POST /v1/validate", func(w http.ResponseWriter, r *http.Request) {
			if err := s.Validate(); err != nil {
				fail(w, http.StatusConflict, err.Error(), r.URL.Path)
				return
			}
			reply(w, http.StatusAccepted, map[string]string{"reports": "/v1/reports"})
		})
	}
	if c.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	t.patterns = mux.patterns
	return jsonErrors(mux.ServeMux)
}

// openAPI is an OpenAPI 3.1 document of every request that a Server answers, but profiles.
//

//go:embed openapi.json
var openAPI []byte

// serveOpenAPI answers GET /openapi.json.
func serveOpenAPI(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI)
}

// router is a mux that remembers its patterns.
type router struct {
	*http.ServeMux
	patterns []string
}

func (r *router) Handle(pattern string, h http.Handler) {
	r.ServeMux.Handle(pattern, h)
	r.patterns = append(r.patterns, pattern)
}

func (r *router) HandleFunc(pattern string, f http.HandlerFunc) { r.Handle(pattern, f) }

// reply writes a JSON answer.
func reply(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":"the answer has no JSON form","where":""}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)+1))
	w.WriteHeader(status)
	w.Write(append(data, '\n'))
}

// fail writes a JSON error: what is wrong, and where.
func fail(w http.ResponseWriter, status int, what, where string) {
	reply(w, status, map[string]string{"error": what, "where": where})
}

// asked returns the number of things that a parameter of the query asks for, from least to
// most, or usual without one. Where ok is false it has answered with an error.
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
	fail(w, http.StatusBadRequest, fmt.Sprintf("%s=%.20q: want a number of %s from %d %s", name, text, things, least, to), "query")
	return 0, false
}

// jsonErrors gives the mux's own errors, of unknown paths and methods, the form
// of all others.
func jsonErrors(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(&errorWriter{ResponseWriter: w, path: r.URL.Path}, r)
	})
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
		} else { // a redirect to the clean path
			w.ResponseWriter.WriteHeader(status)
		}
	})
}

func (w *errorWriter) Write(p []byte) (int, error) { return len(p), nil }

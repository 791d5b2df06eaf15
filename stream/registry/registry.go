// Package registry fetches the schemas of records from a schema registry with Confluent's HTTP protocol.
package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"blankout/internal/event"
	"blankout/internal/secret"
)

// Config has the settings of the registry: the section [registry] of the configuration. config/blankout.toml explains
// each key.
type Config struct {
	URL          event.Address `toml:"url"` // http://HOST:PORT, several separated by commas
	Username     string        `toml:"username"`
	PasswordEnv  string        `toml:"-"`
	PasswordFile string        `toml:"password_file"`
	TokenEnv     string        `toml:"-"` // variable with a bearer token, which replaces the username
	TokenFile    string        `toml:"token_file"`
	CAFile       string        `toml:"ca_file"`
	CertFile     string        `toml:"cert_file"`
	KeyFile      string        `toml:"key_file"`
}

// DefaultConfig returns the settings of an empty section.
func DefaultConfig() Config {
	return Config{PasswordEnv: "BLANKOUT_REGISTRY_PASSWORD", TokenEnv: "BLANKOUT_REGISTRY_TOKEN"}
}

// Check returns the first error in the configuration, with its key. It reads neither files nor secrets.
func (c Config) Check() error {
	for _, text := range c.urls() {
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			return event.KeyErrorf("url", "url: want http://HOST:PORT or https://HOST:PORT")
		case u.User != nil:
			return event.KeyErrorf("url", "url: it contains a user or password: put them in username and password_file")
		case u.Scheme == "http" && c.hasCertificates():
			return event.KeyErrorf("url", "url %s: certificates are given but it is not https", event.Address(text))
		}
	}
	switch {
	case c.URL == "" && (c.Username != "" || c.PasswordFile != "" || c.TokenFile != "" || c.hasCertificates()):
		return event.KeyErrorf("url", "url: empty, but other settings of [registry] are set")
	case c.Username == "" && c.PasswordFile != "":
		return event.KeyErrorf("username", "username: empty for password_file")
	case c.Username != "" && c.TokenFile != "":
		return event.KeyErrorf("token_file", "token_file: username is set, too: set only one")
	case (c.CertFile == "") != (c.KeyFile == ""):
		return event.KeyErrorf("cert_file", "set both cert_file and key_file, or neither")
	}
	return nil
}

func (c Config) urls() (urls []string) {
	for _, text := range strings.Split(string(c.URL), ",") {
		if text = strings.TrimSpace(text); text != "" {
			urls = append(urls, strings.TrimRight(text, "/"))
		}
	}
	return urls
}

func (c Config) hasCertificates() bool { return c.CAFile != "" || c.CertFile != "" }

// CheckSecrets reads the password, the token and the certificates, and returns the first error.
func (c Config) CheckSecrets() error {
	_, err := c.options()
	return err
}

func (c Config) options() ([]sr.ClientOpt, error) {
	config, err := secret.TLS(c.CAFile, c.CertFile, c.KeyFile)
	if err != nil {
		return nil, err
	}
	client := secret.Client(config)
	client.Transport, client.Timeout = limited{client.Transport}, 10*time.Second
	options := []sr.ClientOpt{sr.URLs(c.urls()...), sr.UserAgent("blankout"), sr.HTTPClient(client)}
	if c.Username != "" {
		password, err := secret.Read(c.PasswordFile, c.PasswordEnv)
		if err == nil && password == "" {
			err = fmt.Errorf("no password for %s: set the environment variable %s or name a password_file", c.Username, c.PasswordEnv)
		}
		if err != nil {
			return nil, event.KeyErrorf("password_file", "password_file: %w", err)
		}
		return append(options, sr.BasicAuth(c.Username, password)), nil
	}
	token, err := secret.Read(c.TokenFile, c.TokenEnv)
	if err != nil {
		return nil, event.KeyErrorf("token_file", "token_file: %w", err)
	}
	if token != "" {
		options = append(options, sr.BearerToken(token))
	}
	return options, nil
}

// maxAnswer is the largest response of the registry, and the largest total size of the schemas that one schema refers
// to. By default Kafka stores no schema above 1 MB.
const maxAnswer = 2 << 20

var errTooLong = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)

// limited reads responses of at most maxAnswer bytes.
type limited struct{ http.RoundTripper }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = &limitedBody{answer.Body, maxAnswer}
	}
	return answer, err
}

type limitedBody struct {
	io.ReadCloser
	left int
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLong
	}
	return n, err
}

// Schema is a schema, with the schemas that it refers to.
type Schema struct {
	Type string // AVRO, PROTOBUF or JSON
	Text string
	// References are the schemas that Text refers to by name. Each schema follows the schemas that it refers to.
	References []Reference
}

// Reference is a schema with the name by which other schemas refer to it.
type Reference struct{ Name, Text string }

// DeniedError reports that the registry responds but has no usable schema with the ID.
type DeniedError struct{ Err error }

func (e *DeniedError) Error() string {
	return fmt.Sprintf("the registry does not give it: %v", e.Err)
}

func (e *DeniedError) Unwrap() error { return e.Err }

// Status is the state of a Client.
type Status struct {
	Failures uint64 // number of failed requests
	// LastError is the reason why a caller waits for a schema, or "" if none waits. Since is the start of the wait.
	LastError string
	Since     time.Time
	// Refused is the reason of the latest refusal if at least refusedInARow latest records were all refused because of
	// their schemas. Otherwise it is "".
	Refused string
}

// Client fetches and caches schemas. The schema with a given ID never changes. A Client is safe for concurrent use.
type Client struct {
	registry *sr.Client
	log      *slog.Logger
	pause    time.Duration // time before the first retry

	refused atomic.Uint64 // number of consecutive refused records

	mu     sync.Mutex
	known  map[uint32]*Schema
	denied map[uint32]denial
	why    error // reason of the latest refusal
	status Status
}

// denial is the registry's response for an ID, and the time until which the ID is not requested again.
type denial struct {
	err   *DeniedError
	until time.Time
}

// New returns a Client without sending a request. log may be nil.
func New(c Config, log *slog.Logger) (*Client, error) {
	if c.URL == "" {
		return nil, event.KeyErrorf("url", "url: empty, but the records need the schemas of a registry")
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	options, err := c.options()
	if err != nil {
		return nil, err
	}
	client, err := sr.NewClient(options...)
	if err != nil {
		return nil, err
	}
	return &Client{registry: client, log: cmp.Or(log, slog.New(slog.DiscardHandler)), pause: 250 * time.Millisecond, known: map[uint32]*Schema{}, denied: map[uint32]denial{}}, nil
}

// Status returns the state of the Client.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.status
	if n := c.refused.Load(); n >= refusedInARow {
		s.Refused = fmt.Sprintf("the last %d records were refused for their schemas, the latest: %v", n, c.why)
	}
	return s
}

// refusedInARow is the number of consecutive refused records from which Status reports them. A single producer with
// unreadable records does not make a learner unready.
const refusedInARow = 10

// Use reports the result of decoding a record to c. refused is nil if the schema of the record was usable, otherwise
// the error for which the record was refused.
func (c *Client) Use(refused error) {
	if refused == nil {
		if c.refused.Load() > 0 {
			c.refused.Store(0)
		}
		return
	}
	c.mu.Lock()
	c.why = refused
	c.mu.Unlock()
	c.refused.Add(1)
}

const (
	// askAgain is the time for which a denied schema is not requested again, because otherwise every record would wait
	// for the response. This time is short, because parts of a registry may not have a new schema yet.
	askAgain = 10 * time.Second
	// maxDenied is the largest number of stored denials.
	maxDenied = 10_000
)

// Schema returns the schema with an ID. Schema retries while the registry fails or is unreachable. When ctx ends, it
// returns the error of ctx. It returns a *DeniedError if the registry denies the ID or the schema exceeds the limits.
func (c *Client) Schema(ctx context.Context, id uint32) (*Schema, error) {
	c.mu.Lock()
	known, denied := c.known[id], c.denied[id]
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	if time.Now().Before(denied.until) {
		return nil, denied.err
	}
	for pause := c.pause; ; pause = min(2*pause, 30*time.Second) {
		s, err := c.fetch(ctx, id)
		switch {
		case ctx.Err() != nil:
			c.answered(func() {})
			return nil, ctx.Err()
		case err == nil:
			c.answered(func() { c.known[id] = s })
			return s, nil
		case denies(err):
			return nil, c.deny(id, err)
		}
		c.fail(id, err, pause)
		select {
		case <-ctx.Done(): // fetch fails at once
		case <-time.After(pause):
		}
	}
}

// denies reports whether an error is the registry's final response, so that a retry is useless. Such an error has an
// error code of the registry, which a proxy does not send.
func denies(err error) bool {
	final := []int{http.StatusNotFound, http.StatusBadRequest, http.StatusUnprocessableEntity}
	answer, ok := errors.AsType[*sr.ResponseError](err)
	return ok && answer.ErrorCode != 0 && slices.Contains(final, answer.StatusCode) || errors.Is(err, errTooLong) || errors.Is(err, errReferences)
}

func (c *Client) deny(id uint32, err error) error {
	d := denial{&DeniedError{err}, time.Now().Add(askAgain)}
	c.answered(func() {
		if len(c.denied) >= maxDenied {
			clear(c.denied)
		}
		c.denied[id] = d
	})
	return d.err
}

// answered calls keep, and records that no caller is waiting.
func (c *Client) answered(keep func()) {
	c.mu.Lock()
	keep()
	waited := c.status.LastError != ""
	since := c.status.Since
	c.status.LastError, c.status.Since = "", time.Time{}
	c.mu.Unlock()
	if waited {
		c.log.Info("the schema registry is no longer waited for", "seconds", int(time.Since(since).Seconds()))
	}
}

func (c *Client) fail(id uint32, err error, pause time.Duration) {
	err = event.HideAddresses(err)
	text := fmt.Sprintf("the registry does not return schema %d: %v", id, err)
	c.mu.Lock()
	c.status.Failures++
	if c.status.LastError == "" {
		c.status.Since = time.Now()
	}
	c.status.LastError = text
	c.mu.Unlock()
	c.log.Warn("a record waits for its schema, which the registry did not return; trying again", "schema", id, "retry_in", pause, "err", err)
}

// fetch requests a schema and all schemas that it refers to.
func (c *Client) fetch(ctx context.Context, id uint32) (*Schema, error) {
	schema, err := c.registry.SchemaByID(ctx, int(id))
	if err != nil {
		return nil, err
	}
	s := &Schema{Type: schema.Type.String(), Text: schema.Schema}
	f := follower{c, s, map[string]bool{}, maxAnswer}
	return s, f.follow(ctx, schema.References)
}

// maxReferences is the largest number of schemas that one schema refers to. A chain of references takes time
// proportional to the square of its length.
const maxReferences = 200

var errReferences = fmt.Errorf("it refers to more than %d schemas, or to more than %d bytes of them", maxReferences, maxAnswer)

// follower collects the schemas that a schema refers to.
type follower struct {
	*Client
	s    *Schema
	seen map[string]bool
	left int // remaining number of bytes for schemas
}

func (f *follower) follow(ctx context.Context, references []sr.SchemaReference) error {
	for _, r := range references {
		if f.seen[r.Name] {
			continue
		}
		if f.seen[r.Name] = true; len(f.seen) > maxReferences {
			return errReferences
		}
		found, err := f.registry.SchemaByVersion(ctx, r.Subject, r.Version)
		if err == nil {
			if f.left -= len(found.Schema.Schema); f.left < 0 {
				return errReferences
			}
			err = f.follow(ctx, found.References)
		}
		if errors.Is(err, errReferences) {
			return err
		}
		if err != nil {
			return fmt.Errorf("%s, version %d of %s, which it refers to: %w", r.Name, r.Version, r.Subject, err)
		}
		f.s.References = append(f.s.References, Reference{r.Name, found.Schema.Schema})
	}
	return nil
}

// Register makes a schema the newest version of a subject, unless it already is, and returns the schema's ID. It sends
// one request.
func (c *Client) Register(ctx context.Context, subject, kind, text string) (uint32, error) {
	var t sr.SchemaType
	if err := t.UnmarshalText([]byte(kind)); err != nil {
		return 0, err
	}
	found, err := c.registry.CreateSchema(ctx, subject, sr.Schema{Schema: text, Type: t})
	if err != nil {
		return 0, fmt.Errorf("registering the schema of %s: %w", subject, err)
	}
	return uint32(found.ID), nil
}

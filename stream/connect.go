package stream

// This file connects to a Kafka cluster: addresses, TLS, SASL, timeouts and failed connections. kafka-go's Transport
// keeps connections and routes requests to partition leaders. The type cluster also reports the true cause of an error,
// drops dead addresses, and closes every connection.

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"blankout/internal/event"
	"blankout/internal/secret"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	franz "github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// ConnectConfig holds the settings of a connection to a cluster.
type ConnectConfig struct {
	Brokers []string `toml:"brokers"` // host:port of one or more bootstrap brokers
	// RequestTimeout limits every request to a broker, including connecting. Five times this, at most 10 s, limits the wait
	// for a first response while brokers start.
	RequestTimeout time.Duration `toml:"request_timeout"`
	// MetadataInterval is the largest age of the cached leaders and partitions. It also limits one metadata request, so
	// it should be at least 1 s.
	MetadataInterval time.Duration `toml:"-"`
	TLS              TLSConfig     `toml:"tls"`
	SASL             SASLConfig    `toml:"sasl"`
}

// TLSConfig configures encryption. Files are in PEM format.
type TLSConfig struct {
	Enabled  bool   `toml:"enabled"`
	CAFile   string `toml:"ca_file"`   // CA certificates for the brokers; "" means the system's
	CertFile string `toml:"cert_file"` // certificate of the client, with its key in KeyFile
	KeyFile  string `toml:"key_file"`  //

	ServerName string `toml:"server_name"` // expected name in the certificate; "" means the dialed address
}

// SASLConfig configures authentication. The password is read from a file or from the environment, never from the
// configuration.
type SASLConfig struct {
	Mechanism    string `toml:"mechanism"` // "", "PLAIN", "SCRAM-SHA-256" or "SCRAM-SHA-512"
	Username     string `toml:"username"`
	PasswordEnv  string `toml:"-"`             // name of an environment variable with the password
	PasswordFile string `toml:"password_file"` // path of a file with the password; a final newline is dropped
}

// DefaultConnectConfig returns a ConnectConfig for a broker on this machine.
func DefaultConnectConfig() ConnectConfig {
	return ConnectConfig{
		Brokers:          []string{"127.0.0.1:9092"},
		RequestTimeout:   10 * time.Second,
		MetadataInterval: 5 * time.Second,
		SASL:             SASLConfig{PasswordEnv: "BLANKOUT_KAFKA_PASSWORD"},
	}
}

// check returns an error for the first invalid setting. It reads neither files nor secrets, so that a configuration can
// be checked without them.
func (c *ConnectConfig) check() error {
	if len(c.Brokers) == 0 {
		return event.KeyErrorf("brokers", "brokers: none given")
	}
	for _, b := range c.Brokers {
		if strings.Contains(b, "@") {
			return event.KeyErrorf("brokers", "brokers: an address contains a user or password: write host:port, and put them in [kafka.sasl]")
		}
		if _, _, err := net.SplitHostPort(b); err != nil || strings.ContainsAny(b, "/?#") {
			return event.KeyErrorf("brokers", "brokers: %q: want host:port", event.Address(b))
		}
	}
	if c.RequestTimeout <= 0 {
		return event.KeyErrorf("request_timeout", "request_timeout %v: want a positive time", c.RequestTimeout)
	}
	if err := c.TLS.check(); err != nil {
		return err
	}
	return c.SASL.check()
}

// CheckSecrets reads the password and the certificates, and returns the first error.
func (c *ConnectConfig) CheckSecrets() error {
	if _, err := c.TLS.Load(); err != nil {
		return err
	}
	_, err := c.SASL.load()
	return err
}

func (c *TLSConfig) check() error {
	switch {
	case !c.Enabled && (c.CAFile != "" || c.CertFile != "" || c.KeyFile != ""):
		return event.KeyErrorf("tls.enabled", "tls: files are set but enabled is false: set enabled = true")
	case (c.CertFile == "") != (c.KeyFile == ""):
		return event.KeyErrorf("tls.cert_file", "tls: set both cert_file and key_file, or neither")
	}
	return nil
}

func (c *SASLConfig) check() error {
	switch {
	case c.Mechanism == "" && c.Username != "":
		return event.KeyErrorf("sasl.mechanism", "sasl: username is set but mechanism is empty")
	case c.Mechanism == "":
	case !slices.Contains([]string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}, c.Mechanism):
		return event.KeyErrorf("sasl.mechanism", "sasl: mechanism %q, want PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", c.Mechanism)
	case c.Username == "":
		return event.KeyErrorf("sasl.username", "sasl: no username")
	}
	return nil
}

// Load reads the files. It returns nil if TLS is not enabled.
func (c *TLSConfig) Load() (*tls.Config, error) {
	if !c.Enabled {
		return nil, nil
	}
	t, err := secret.TLS(c.CAFile, c.CertFile, c.KeyFile)
	if err != nil {
		key, _ := errors.AsType[*event.KeyError](err)
		return nil, event.KeyErrorf("tls."+key.Key, "tls: %w", key.Err)
	}
	t.ServerName = c.ServerName
	return t, nil
}

func (c *SASLConfig) load() (sasl.Mechanism, error) {
	if c.Mechanism == "" {
		return nil, nil
	}
	password, err := secret.Read(c.PasswordFile, c.PasswordEnv)
	if err != nil {
		return nil, event.KeyErrorf("sasl.password_file", "sasl: password_file: %w", err)
	}
	if password == "" {
		return nil, event.KeyErrorf("sasl.password_file", "sasl: no password for %s: set the environment variable %s or name a password_file", c.Username, c.PasswordEnv)
	}
	account := scram.Auth{User: c.Username, Pass: password}
	switch c.Mechanism {
	case "SCRAM-SHA-256":
		return challenged{account.AsSha256Mechanism()}, nil
	case "SCRAM-SHA-512":
		return challenged{account.AsSha512Mechanism()}, nil
	}
	return plain.Mechanism{Username: c.Username, Password: password}, nil
}

// challenged is a mechanism of franz-go for kafka-go. Like brokers, it takes the password as it is; kafka-go's own
// mechanism first replaces some of its letters.
type challenged struct{ franz.Mechanism }

func (m challenged) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	s, first, err := m.Authenticate(ctx, "")
	return challenge{s}, first, err
}

type challenge struct{ franz.Session }

func (c challenge) Next(_ context.Context, server []byte) (done bool, response []byte, err error) {
	return c.Challenge(server)
}

// cluster is a connection to a Kafka cluster. It is safe for concurrent use.
type cluster struct {
	addr      net.Addr
	names     string // the configured brokers, for error messages
	transport *kafka.Transport
	client    *kafka.Client
	timeout   time.Duration
	log       *slog.Logger
	open      context.Context // ends with close
	stop      context.CancelFunc

	mu    sync.Mutex
	epoch int // number of times that idle connections were dropped

	reached atomic.Bool // a broker has responded
}

// connect prepares a cluster and waits for its first response. Only metadata of the given topics is kept.
func connect(ctx context.Context, c ConnectConfig, topics []string, log *slog.Logger) (*cluster, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	tlsConfig, err := c.TLS.Load()
	if err != nil {
		return nil, err
	}
	mechanism, err := c.SASL.load()
	if err != nil {
		return nil, err
	}
	k := &cluster{
		addr:    kafka.TCP(c.Brokers...),
		names:   strings.Join(c.Brokers, ","),
		timeout: c.RequestTimeout,
		log:     cmp.Or(log, slog.New(slog.DiscardHandler)),
	}
	k.open, k.stop = context.WithCancel(context.Background())
	k.transport = &kafka.Transport{
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return k.dial(ctx, network, address, tlsConfig)
		},
		DialTimeout:    min(c.RequestTimeout, 5*time.Second),
		ClientID:       "blankout",
		SASL:           mechanism,
		MetadataTopics: topics,
		MetadataTTL:    c.MetadataInterval,
		Context:        k.open,
	}
	k.client = &kafka.Client{Addr: k.addr, Timeout: c.RequestTimeout, Transport: k.transport}

	ctx, cancel := context.WithTimeout(ctx, c.startWait())
	defer cancel()
	err = k.retry(ctx, "connecting to "+k.names, func() error {
		_, err := k.client.Metadata(ctx, &kafka.MetadataRequest{Topics: topics})
		return err
	})
	if err != nil {
		k.close()
		late := errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
		if i := slices.IndexFunc(c.Brokers, func(b string) bool { return late && speaksHTTP(b) }); i >= 0 {
			err = fmt.Errorf("%w; %s speaks HTTP and is not a Kafka broker: set kafka.brokers", err, c.Brokers[i])
		}
		return nil, err
	}
	return k, nil
}

// startWait returns how long to wait for brokers that start: five requests, at most 10 s, but at least one request.
func (c *ConnectConfig) startWait() time.Duration {
	return max(c.RequestTimeout, min(5*c.RequestTimeout, 10*time.Second))
}

// speaksHTTP reports whether an HTTP server listens at an address. An HTTP server does not respond to a Kafka request,
// because it waits for the end of a line.
func speaksHTTP(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	var head [5]byte
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_, err = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	_, err2 := io.ReadFull(conn, head[:])
	return err == nil && err2 == nil && string(head[:]) == "HTTP/"
}

// trackedConn is a connection that its cluster closes.
type trackedConn struct {
	net.Conn
	untrack func() bool
}

func (c trackedConn) Close() error {
	c.untrack()
	return c.Conn.Close()
}

// dial connects, with TLS if configured, and checks the responses. The Transport need not wrap the connection again.
func (k *cluster) dial(ctx context.Context, network, address string, tlsConfig *tls.Config) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	var tracked net.Conn = trackedConn{conn, context.AfterFunc(k.open, func() { conn.Close() })}
	if tlsConfig != nil {
		if tlsConfig.ServerName == "" {
			tlsConfig = tlsConfig.Clone()
			tlsConfig.ServerName, _, _ = net.SplitHostPort(address)
		}
		tracked = tls.Client(tracked, tlsConfig)
	}
	return &checkedConn{Conn: tracked}, nil
}

// close closes every connection, even during a request.
func (k *cluster) close() {
	k.stop()
	k.transport.CloseIdleConnections()
}

// now returns the current epoch. Pass it to forget after a failed call.
func (k *cluster) now() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.epoch
}

// forget drops idle connections and cached metadata, so that the next call requests the leaders again. Otherwise the
// Transport would keep dead addresses for seconds. epoch is the result of now before the failed call. If several
// callers fail together, only the first caller drops the connections, and the other callers use new connections.
func (k *cluster) forget(epoch int) {
	k.mu.Lock()
	first := epoch == k.epoch
	if first {
		k.epoch++
	}
	k.mu.Unlock()
	if first {
		k.transport.CloseIdleConnections()
	}
}

// cause returns the true cause of a failed call. The Transport without metadata reports "topic not found" for any
// cause, so cause requests the metadata itself.
func (k *cluster) cause(ctx context.Context, err error) error {
	var code kafka.Error
	if ctx.Err() != nil || errors.As(err, &code) && code != kafka.UnknownTopicOrPartition && code != kafka.Unknown {
		return err
	}
	if _, real := k.client.Metadata(ctx, &kafka.MetadataRequest{}); real != nil && ctx.Err() == nil {
		return real
	}
	return err
}

// permanent reports whether retrying cannot fix an error.
func permanent(err error) bool {
	if code, ok := errors.AsType[kafka.Error](err); ok {
		return !code.Temporary() && code != kafka.BrokerNotAvailable && code != kafka.ReplicaNotAvailable && code != kafka.Unknown
	}
	alert, ok := errors.AsType[*net.OpError](err) // an error that the peer reports through crypto/tls
	return ok && alert.Op == "remote error" || is[x509.UnknownAuthorityError](err) || is[x509.HostnameError](err) ||
		is[x509.CertificateInvalidError](err) || is[tls.RecordHeaderError](err)
}

// is reports whether an error is or wraps an error of type T.
func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

const (
	firstBackoff = 25 * time.Millisecond
	lastBackoff  = 2 * time.Second
)

// backoff sleeps before a retry, a little longer for each attempt (counted from 1). It returns false if ctx ends first.
func backoff(ctx context.Context, attempt int) bool {
	d := min(firstBackoff<<min(attempt-1, 10), lastBackoff)
	d += rand.N(d / 4) // keeps many clients from retrying at the same time
	return Sleep(ctx, d) == nil
}

// Sleep waits for a time. If ctx ends first, it returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// retry calls f until it succeeds, fails permanently or ctx ends. If ctx ends, it returns the error of ctx with the
// last error of f.
func (k *cluster) retry(ctx context.Context, doing string, f func() error) error {
	var before error
	for attempt := 1; ; attempt++ {
		epoch := k.now()
		err := f()
		if err == nil {
			k.reached.Store(true)
			return nil
		}
		if err = k.cause(ctx, err); ctx.Err() != nil && before != nil {
			err = before // the earlier error is more informative than the timeout
		}
		before = err
		if permanent(err) {
			return fmt.Errorf("%s: %w", doing, explain(err, !k.reached.Load()))
		}
		k.forget(epoch)
		if logged(attempt) && ctx.Err() == nil { // a regular stop is not a failure
			k.log.Warn(doing, "attempt", attempt, "err", explain(err, !k.reached.Load()))
		}
		if !backoff(ctx, attempt) {
			return fmt.Errorf("%s: %w (last of %d attempts: %w)", doing, explain(err, !k.reached.Load()), attempt, ctx.Err())
		}
	}
}

// logged reports whether to log the failure of an attempt: only attempts 1, 2, 4, 8, … are logged.
func logged(attempt int) bool { return attempt&(attempt-1) == 0 }

// explain adds a hint for the user to an error. Hints about addresses and TLS are only for first connections: first is
// true until a broker has responded.
func explain(err error, first bool) error {
	// kafka-go begins an error with the name of its method, as in "kafka.(*Client).Metadata: ".
	if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(err.Error(), "kafka.(*Client).") {
		err = inner
	}
	switch {
	case errors.Is(err, kafka.SASLAuthenticationFailed):
		return fmt.Errorf("%w: check sasl.username and the password", err)
	case is[x509.UnknownAuthorityError](err):
		return fmt.Errorf("%w: set tls.ca_file to the authority that signed the brokers' certificates", err)
	case is[tls.RecordHeaderError](err):
		return fmt.Errorf("%w: the broker does not speak TLS on this port", err)
	case !first:
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: no program listens at this address: is the broker running, and is kafka.brokers (--brokers) right?", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: no answer: check that this is the port of a Kafka broker, and whether it needs TLS", err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("%w: the broker closed the connection: check whether the port needs TLS or SASL, and the user and password", err)
	}
	return err
}

// roundTrip sends a request, and waits for the response for a time.
func (k *cluster) roundTrip(ctx context.Context, wait time.Duration, request kafka.Request) (kafka.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return k.transport.RoundTrip(ctx, k.addr, request)
}

// partitions returns the partitions of a topic in ascending order. If the topic is missing it retries briefly, because
// a new topic reaches the brokers one after the other.
func (k *cluster) partitions(ctx context.Context, topic string) ([]int32, error) {
	for attempt := 1; ; attempt++ {
		epoch := k.now()
		var found []int32
		err := k.retry(ctx, "asking for topic "+topic, func() error {
			m, err := k.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
			if err != nil {
				return err
			}
			if i := slices.IndexFunc(m.Topics, func(t kafka.Topic) bool { return t.Name == topic }); i >= 0 {
				if err := m.Topics[i].Error; err != nil && !errors.Is(err, kafka.UnknownTopicOrPartition) {
					return err
				}
				for _, p := range m.Topics[i].Partitions {
					found = append(found, int32(p.ID))
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			slices.Sort(found)
			return found, nil
		}
		if attempt == 3 {
			return nil, &TopicMissingError{Topic: topic, Brokers: k.names}
		}
		k.forget(epoch)
		if !backoff(ctx, attempt) {
			return nil, ctx.Err()
		}
	}
}

// TopicMissingError reports that a topic does not exist.
type TopicMissingError struct{ Topic, Brokers string }

func (e *TopicMissingError) Error() string {
	return fmt.Sprintf("topic %q does not exist on %s: create it, or set create_topics = true", e.Topic, e.Brokers)
}

// createTopic creates a topic unless it exists, with the brokers' default number of replicas. settings, as NAME=VALUE,
// override the brokers' default settings.
func (k *cluster) createTopic(ctx context.Context, topic string, partitions int, settings []string) error {
	var entries []kafka.ConfigEntry
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		entries = append(entries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	err := k.retry(ctx, "creating topic "+topic, func() error {
		r, err := k.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
			Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: -1, ConfigEntries: entries}},
		})
		if err != nil {
			return err
		}
		if err := r.Errors[topic]; err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	k.forget(k.now())
	return nil
}

// ensureTopic returns the partitions of a topic, and creates it first, with the settings, if allowed.
func (k *cluster) ensureTopic(ctx context.Context, topic string, create bool, partitions int, settings ...string) ([]int32, error) {
	found, err := k.partitions(ctx, topic)
	if !is[*TopicMissingError](err) || !create {
		return found, err
	}
	if err := k.createTopic(ctx, topic, partitions, settings); err != nil {
		return nil, err
	}
	k.log.Info("created topic", "topic", topic, "partitions", partitions)
	return k.partitions(ctx, topic)
}

// bounds returns the start and the end of each partition.
func (k *cluster) bounds(ctx context.Context, topic string, partitions []int32) (starts, ends map[int32]int64, err error) {
	if starts, err = k.offsets(ctx, topic, partitions, kafka.FirstOffset, false); err == nil {
		ends, err = k.offsets(ctx, topic, partitions, kafka.LastOffset, false)
	}
	return starts, ends, err
}

// offsets returns the offset at a time of each partition. at is in ms, or kafka.FirstOffset or kafka.LastOffset. The
// result is -1 for a time after the last record. If committed is true, kafka.LastOffset is the last stable offset.
func (k *cluster) offsets(ctx context.Context, topic string, partitions []int32, at int64, committed bool) (map[int32]int64, error) {
	out := make(map[int32]int64, len(partitions))
	err := k.retry(ctx, "asking for offsets of topic "+topic, func() error {
		req := &listoffsets.Request{ReplicaID: -1, Topics: []listoffsets.RequestTopic{{Topic: topic}}}
		if committed {
			req.IsolationLevel = int8(kafka.ReadCommitted)
		}
		for _, p := range partitions {
			if _, ok := out[p]; !ok {
				req.Topics[0].Partitions = append(req.Topics[0].Partitions,
					listoffsets.RequestPartition{Partition: p, CurrentLeaderEpoch: -1, Timestamp: at})
			}
		}
		m, err := k.roundTrip(ctx, k.timeout, req)
		if err != nil {
			return err
		}
		for _, t := range m.(*listoffsets.Response).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					err = fmt.Errorf("partition %d: %w", p.Partition, kafka.Error(p.ErrorCode))
					continue
				}
				out[p.Partition] = p.Offset
			}
		}
		if err == nil && len(out) != len(partitions) {
			err = fmt.Errorf("answer for %d of %d partitions", len(out), len(partitions))
		}
		return err
	})
	return out, err
}

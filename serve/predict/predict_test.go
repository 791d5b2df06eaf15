package predict_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/internal/streamtest"
	"blankout/serve/predict"
	"blankout/stream"
	"blankout/stream/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(longtest.Waiting(m, 8)) }

// broker starts a broker with the topics events and predictions, of two partitions each. The tests that use it mostly
// wait, so it lets them run in parallel.
func broker(t *testing.T) *kfake.Cluster {
	t.Helper()
	t.Parallel()
	c := must.Get(kfake.NewCluster(kfake.Ports(0), kfake.SeedTopics(2, "events", "predictions")))(t)
	t.Cleanup(c.Close)
	return c
}

// trained returns a model that predicts yes for events whose first feature is positive. A higher version gives higher
// probabilities.
func trained(version uint64) *served.Model {
	recordConfig := record.DefaultConfig()
	recordConfig.Format = "svmlight"
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	schema.NumericIndices = true
	m := served.New(model.NewLinear(schema, "logistic", "none", [][]float64{{float64(version), 0}}, []float64{0}), recordConfig)
	m.Version, m.At = version, time.Now()
	return m
}

func produce(t *testing.T, c *kfake.Cluster, from, to int) {
	t.Helper()
	p := producer(t, c)
	for i := from; i < to; i++ {
		value := must.Either(i%50 == 7, "0 1:one", fmt.Sprintf("0 1:%d", 2*(i%2)-1))
		m := stream.Message{Key: fmt.Appendf(nil, "key-%d", i), Value: []byte(value), Time: 1000 + int64(i)}
		must.Do(t, p.WriteTo(t.Context(), int32(i%2), m))
	}
	must.Do(t, errors.Join(p.Flush(t.Context()), p.Close()))
}

// predictions returns the keys and values in the topic of predictions.
func predictions(t *testing.T, c *kfake.Cluster) (keys []string, values []predict.Output) {
	t.Helper()
	config := stream.DefaultConsumerConfig()
	config.Brokers, config.Topics, config.UntilEnd = c.ListenAddrs(), []string{"predictions"}, true
	r := must.Get(stream.NewReader(t.Context(), config, nil))(t)
	defer r.Close()
	for b := range must.All(t, func() (stream.RawBatch, error) { return r.Next(t.Context()) }) {
		for _, r := range b.Records {
			var p predict.Output
			must.Do(t, json.Unmarshal(r.Value, &p), r.Value)
			keys, values = append(keys, string(r.Key)), append(values, p)
		}
	}
	return keys, values
}

// predictor returns a Predictor that reads the topic events, writes the topic predictions, and stops at the end.
func predictor(c *kfake.Cluster, m func() *served.Model) *predict.Predictor {
	p := &predict.Predictor{Config: predict.DefaultConfig(), Kafka: stream.DefaultConsumerConfig(), Model: m}
	p.Config.Topic, p.Config.Output = "events", "predictions"
	p.Kafka.Brokers, p.Kafka.UntilEnd = c.ListenAddrs(), true
	return p
}

// keep runs a Predictor until the returned function is called.
func keep(t *testing.T, p *predict.Predictor) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Keep(ctx) }()
	return func() { cancel(); <-done }
}

// producer returns a producer for the topic of events.
func producer(t *testing.T, c *kfake.Cluster) *stream.Producer {
	t.Helper()
	config := stream.DefaultProducerConfig()
	config.Brokers, config.Topic = c.ListenAddrs(), "events"
	return must.Get(stream.NewProducer(t.Context(), config))(t)
}

// times counts the predictions of each event, by topic, partition and offset.
func times(values []predict.Output) map[string]int {
	n := map[string]int{}
	for _, p := range values {
		n[fmt.Sprintf("%s/%d/%d", p.Topic, p.Partition, p.Offset)]++
	}
	return n
}

// TestPredict checks that every event gets one prediction, or the reason why it cannot be predicted. A second run must
// continue where the first run ended, with the newer model.
func TestPredict(t *testing.T) {
	c := broker(t)
	produce(t, c, 0, 300)
	version := uint64(1)
	p := predictor(c, func() *served.Model { return trained(version) })
	must.Do(t, p.Run(t.Context()))
	keys, values := predictions(t, c)
	s := p.Stats()
	must.Require(t, len(values) == 300 && s.Scored == 294 && s.Refused == 6 && s.Version == 1 && s.Age > 0 && s.Failures+s.CommitFailures == 0, "%d predictions, %+v", len(values), s)
	for i, p := range values {
		n := p.Offset*2 + int64(p.Partition) // the number of the event
		want := []string{"no", "yes"}[n%2]
		switch {
		case keys[i] != fmt.Sprintf("key-%d", n) || p.Topic != "events" || p.Version != 1 || p.Time != 1000+n:
			t.Fatalf("%s: %+v, event %d", keys[i], p, n)
		case n%50 == 7 && (p.Prediction != nil || !strings.Contains(p.Error, "syntax")):
			t.Fatalf("%s: %+v", keys[i], p)
		case n%50 != 7 && (p.Class != want || p.Probability < 0.7 || len(p.Scores) != 1 || p.Error != ""):
			t.Fatalf("%s: %+v", keys[i], p)
		}
	}
	produce(t, c, 300, 320)
	version = 2
	must.Do(t, p.Run(t.Context()))
	_, values = predictions(t, c)
	for place, n := range times(values) {
		must.Equal(t, n, 1, "predictions of", place)
	}
	must.True(t, len(values) == 320 && slices.IndexFunc(values, func(p predict.Output) bool { return p.Version == 2 && p.Offset < 150 }) < 0, "%d predictions", len(values))
}

// TestAtLeastOnce checks that failures may repeat predictions but never lose any.
func TestAtLeastOnce(t *testing.T) {
	for name, disturb := range map[string]func(c *kfake.Cluster, on *atomic.Bool, cancel context.CancelFunc){
		// All events are predicted but no offset is committed, so the next run predicts all events again.
		"no commit": func(c *kfake.Cluster, on *atomic.Bool, _ context.CancelFunc) {
			c.ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				if !on.Load() {
					return nil, nil, false
				}
				request := r.(*kmsg.OffsetCommitRequest)
				response := request.ResponseKind().(*kmsg.OffsetCommitResponse)
				for _, topic := range request.Topics {
					out := kmsg.OffsetCommitResponseTopic{Topic: topic.Topic}
					for _, p := range topic.Partitions {
						out.Partitions = append(out.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: 30})
					}
					response.Topics = append(response.Topics, out)
				}
				return response, nil, true
			})
		},
		// The topic of predictions accepts no more records, and then the Predictor is stopped.
		"no writes": func(c *kfake.Cluster, on *atomic.Bool, cancel context.CancelFunc) {
			n := 0
			c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				if n++; n < 2 || !on.Load() {
					return nil, nil, false
				}
				if n == 3 {
					cancel()
				}
				return nil, errors.New("the broker is gone"), true
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := broker(t)
			produce(t, c, 0, 6000)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var on atomic.Bool
			on.Store(true)
			disturb(c, &on, cancel)
			p := predictor(c, func() *served.Model { return trained(1) })
			p.Config.CommitInterval = 10 * time.Millisecond
			must.Do(t, p.Run(ctx))
			first := p.Stats()
			must.Require(t, (name != "no commit" || first.Scored >= 5000 && first.CommitFailures != 0) && (name != "no writes" || first.Scored <= 5000), "%+v", first)
			on.Store(false)
			p = predictor(c, func() *served.Model { return trained(2) })
			must.Do(t, p.Run(t.Context()))
			_, values := predictions(t, c)
			must.Equal(t, len(times(values)), 6000, "predicted events")
			must.True(t, name != "no commit" || len(values) == 12000, "%d predictions, want every one twice", len(values))
		})
	}
}

// TestWaitsForAModel checks that a Predictor waits for its first model and then uses newer models.
func TestWaitsForAModel(t *testing.T) {
	c := broker(t)
	produce(t, c, 0, 10)
	var current atomic.Pointer[served.Model]
	p := predictor(c, current.Load)
	p.Kafka.UntilEnd = false
	stop := keep(t, p)
	eventually(t, func() bool { return strings.Contains(p.Stats().LastError, "no model") })
	current.Store(trained(3))
	eventually(t, func() bool { return p.Stats().Scored == 9 && p.Stats().LastError == "" && p.Stats().Version == 3 })
	current.Store(trained(4))
	produce(t, c, 10, 12)
	eventually(t, func() bool { return p.Stats().Scored == 11 && p.Stats().Version == 4 })
	stop()
	_, values := predictions(t, c)
	must.True(t, len(values) == 12, "%d predictions", len(values))
}

// TestMaxEvents checks that a run ends after MaxEvents, even within a batch. The next run must continue at the
// following event.
func TestMaxEvents(t *testing.T) {
	c := broker(t)
	produce(t, c, 0, 300)
	p := predictor(c, func() *served.Model { return trained(1) })
	for _, most := range []uint64{100, 60, 0} {
		_, before := predictions(t, c)
		p.MaxEvents, p.Kafka.UntilEnd = most, most == 0
		must.Do(t, p.Run(t.Context()))
		_, values := predictions(t, c)
		want := len(before) + int(most)
		must.Require(t, most <= 0 || len(values) == want, "MaxEvents %d: %d predictions, want %d", most, len(values), want)
	}
	_, values := predictions(t, c)
	n := times(values)
	must.True(t, len(n) == 300 && len(values) == 300, "%d predictions of %d events", len(values), len(n))
}

// TestRunEndsWithContext checks that Run returns nil if its context ends. Run must return the error of any other
// failure.
func TestRunEndsWithContext(t *testing.T) {
	c := broker(t)
	produce(t, c, 0, 4)
	p := predictor(c, func() *served.Model { return trained(1) })
	p.Kafka.UntilEnd = false
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	eventually(t, func() bool { return p.Stats().Scored == 4 })
	cancel()
	must.Do(t, <-done)
	p.Config.Topic = "absent"
	must.ErrorContains(t, p.Run(t.Context()), "absent")
}

// TestRecreatedTopic deletes a topic and creates it again. The new topic must be predicted from its start.
func TestRecreatedTopic(t *testing.T) {
	c := broker(t)
	produce(t, c, 0, 100)
	p := predictor(c, func() *served.Model { return trained(1) })
	p.Kafka.UntilEnd, p.Kafka.MetadataInterval = false, 100*time.Millisecond
	p.Config.CommitInterval = 10 * time.Millisecond
	defer keep(t, p)()
	eventually(t, func() bool { return p.Stats().Scored+p.Stats().Refused == 100 })
	must.Do(t, errors.Join(c.DeleteTopic("events"), c.CreateTopic("events", 2, nil)))
	produce(t, c, 0, 300)
	eventually(t, func() bool { return p.Stats().Scored+p.Stats().Refused >= 400 })
	_, values := predictions(t, c)
	must.Equal(t, len(times(values)), 300, "predicted events")
}

// TestWritesAreTriedAgain checks predictions that cannot be written at first. The failures must be logged, and the
// predictions must be written later, once each.
func TestWritesAreTriedAgain(t *testing.T) {
	c := broker(t)
	produce(t, c, 0, 300)
	p := predictor(c, func() *served.Model { return trained(1) })
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		if p.Stats().Failures > 1 {
			return nil, nil, false
		}
		c.KeepControl()
		return nil, errors.New("the broker is gone"), true
	})
	var log logged
	p.Kafka.RequestTimeout = 300 * time.Millisecond // a write fails after this time
	p.Log = slog.New(slog.NewTextHandler(&log, nil))
	done := make(chan error)
	go func() { done <- p.Run(t.Context()) }()
	eventually(t, func() bool { s := p.Stats(); return s.Failures > 0 && s.LastError != "" && s.Scored == 0 })
	must.Do(t, <-done)
	s := p.Stats()
	must.True(t, s.Failures >= 2 && s.Scored == 294 && s.LastError == "stopped", "%+v", s)
	n := strings.Count(log.String(), "predictions cannot be written, trying again")
	must.True(t, n == int(p.Stats().Failures), "logged %d times: %s", n, log.String())
	_, values := predictions(t, c)
	for place, n := range times(values) {
		must.Equal(t, n, 1, "predictions of", place)
	}
	must.Equal(t, len(values), 300, "predictions")
}

// TestCommitsOnceAnInterval checks that offsets are committed once an interval and at the end, not with every batch.
func TestCommitsOnceAnInterval(t *testing.T) {
	c := broker(t)
	produce(t, c, 0, 9000) // more than two batches of each partition
	var commits atomic.Int64
	c.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		commits.Add(1)
		return nil, nil, false
	})
	p := predictor(c, func() *served.Model { return trained(1) })
	p.Config.CommitInterval = time.Hour
	must.Do(t, p.Run(t.Context()))
	n := commits.Load()
	must.True(t, n == 1 && p.Stats().Scored == 8820, "%d commits of %d predictions within an hour", n, p.Stats().Scored)
}

// TestKeep checks that Keep ends only at the end of the topic or of its context. Each failure must be counted and
// logged, and followed by another try.
func TestKeep(t *testing.T) {
	c := broker(t)
	produce(t, c, 0, 20)
	p := predictor(c, func() *served.Model { return trained(1) })
	p.Keep(t.Context()) // runs to the end of the topic
	s := p.Stats()
	must.True(t, s.Scored+s.Refused == 20 && s.Failures == 0 && s.LastError == "stopped", "at the end of the topic: %+v", s)

	p = predictor(c, func() *served.Model { return trained(1) })
	p.Config.Topic = "missing"
	var log logged
	p.Log = slog.New(slog.NewTextHandler(&log, nil))
	stop := keep(t, p)
	eventually(t, func() bool { return p.Stats().Failures == 2 })
	s = p.Stats()
	must.True(t, strings.Contains(s.LastError, "missing"), "while the topic is missing: %+v", s)
	must.Do(t, c.CreateTopic("missing", 1, nil))
	eventually(t, func() bool { return !strings.Contains(p.Stats().LastError, "missing") })
	stop()
	n := strings.Count(log.String(), "predictions have stopped; trying again")
	must.True(t, n >= 2, "logged %d times: %s", n, log.String())
}

// logged collects a log that is written concurrently.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestFollow follows a model in a file, before the file exists and while the file is missing. Each change between
// missing and present must be logged once.
func TestFollow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "model")
	var log logged
	c := predict.DefaultConfig()
	c.Model, c.ModelInterval = event.Address(file), 10*time.Millisecond
	f := must.Get(c.Follow(served.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}))(t)
	logs := func(what string) int { return strings.Count(log.String(), what) }
	const cannot, again = "the model cannot be followed", "the model can be followed again"
	eventually(t, func() bool { return logs(cannot) == 1 })
	m, err := f.Model()
	must.True(t, m == nil && err != nil, "a model %v that is not there, %v", m, err)
	time.Sleep(300 * time.Millisecond) // time for more tries
	must.Do(t, trained(1).WriteFile(file))
	eventually(t, func() bool { m, err := f.Model(); return m != nil && err == nil && logs(again) == 1 })
	must.Do(t, os.Remove(file))
	eventually(t, func() bool { return logs(cannot) == 2 })
	m, err = f.Model()
	must.True(t, m != nil && err != nil, "the model is gone with its file")
	must.Do(t, trained(2).WriteFile(file))
	eventually(t, func() bool { return logs(again) == 2 })
	f.Close()
	must.True(t, logs(cannot) == 2 && logs(again) == 2, "logged more than once: %s", log.String())
}

// TestCheckModel checks that an address with an unknown scheme or with a secret is rejected without showing the secret.
func TestCheckModel(t *testing.T) {
	for _, where := range []string{"ftp://somewhere/model", "http://user:secret@somewhere"} {
		c := predict.DefaultConfig()
		c.Model = event.Address(where)
		if err := c.Check(); err == nil {
			t.Errorf("%s is followed", where)
		} else if strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
	}
}

// TestKeyOfAPrediction checks that the key of a prediction is the key of its event, or the event's ID if the event has
// no key.
func TestKeyOfAPrediction(t *testing.T) {
	c := broker(t)
	in := producer(t, c)
	for _, m := range []stream.Message{
		{Key: []byte("key"), Value: []byte(`{"id":"one","x":1}`)}, {Value: []byte(`{"id":"two","x":1}`)}, {Value: []byte(`{"x":1}`)},
	} {
		must.Do(t, in.WriteTo(t.Context(), 0, m))
	}
	must.Do(t, errors.Join(in.Flush(t.Context()), in.Close()))
	recordConfig := record.DefaultConfig()
	recordConfig.Format, recordConfig.ID = "json", "id"
	m := served.New(model.NewLinear(recordConfig.Schema(), "logistic", "none", [][]float64{{1}}, []float64{0}), recordConfig)
	must.Do(t, predictor(c, func() *served.Model { return m }).Run(t.Context()))
	// The keys are sorted, because the order of the predictions depends on their partitions.
	keys, _ := predictions(t, c)
	must.True(t, slices.Equal(slices.Sorted(slices.Values(keys)), []string{"", "key", "two"}), "keys %q", keys)
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	streamtest.Eventually(t, time.Minute, done)
}

func TestCheck(t *testing.T) {
	for want, edit := range map[string]func(*predict.Config){
		"":              func(c *predict.Config) {},
		"output: empty": func(c *predict.Config) { c.Output = "" },
		"topic:":        func(c *predict.Config) { c.Topic = "" },
		"output: \"events\" is the topic of events": func(c *predict.Config) { c.Output = "events" },
		"group:":         func(c *predict.Config) { c.Group = "" },
		"start \"noon\"": func(c *predict.Config) { c.Start = "noon" },
	} {
		c := predict.DefaultConfig()
		c.Topic, c.Output = "events", "predictions"
		edit(&c)
		err := c.Check()
		must.True(t, (err == nil) == (want == "") && (err == nil || strings.HasPrefix(err.Error(), want)), "%q: %v", want, err)
	}
}

// TestConfigToken checks that the token is read from the environment or from a file that is not empty.
func TestConfigToken(t *testing.T) {
	c := predict.DefaultConfig()
	t.Setenv(c.TokenEnv, "from the environment")
	token, err := c.Token()
	must.True(t, token == "from the environment" && err == nil, "%q, %v", token, err)
	c.TokenFile = filepath.Join(t.TempDir(), "token")
	for text, want := range map[string]string{"open sesame\n": "open sesame", "\n": ""} {
		must.Do(t, os.WriteFile(c.TokenFile, []byte(text), 0o600))
		token, err := c.Token()
		must.True(t, token == want && (err != nil) == (want == "") && (err == nil || strings.Contains(err.Error(), "token_file: "+c.TokenFile+" is empty")), "%q: %q, %v", text, token, err)
	}
}

// TestPredictionTooLarge checks predictions that are too large for the topic. A key that is too large must be
// truncated. A prediction with too many scores must become an error. Other predictions must not change.
func TestPredictionTooLarge(t *testing.T) {
	c := must.Get(kfake.NewCluster(kfake.Ports(0), kfake.SeedTopics(1, "events")))(t)
	t.Cleanup(c.Close)
	must.Do(t, c.CreateTopic("predictions", 1, map[string]string{"max.message.bytes": "2000"}))
	in := producer(t, c)
	long := strings.Repeat("é", 100_000)
	for i, key := range []string{"first", long, "odd", "last"} {
		value := must.Either(i == 2, "0 1:one", "0 1:1")
		must.Do(t, in.Write(t.Context(), stream.Message{Key: []byte(key), Value: []byte(value)}))
	}
	must.Do(t, errors.Join(in.Flush(t.Context()), in.Close()))
	// If there are very many classes, the scores alone are too large for a record.
	recordConfig := record.DefaultConfig()
	recordConfig.Format = "svmlight"
	var classes []string
	weights := make([][]float64, 300)
	for i := range weights {
		classes, weights[i] = append(classes, fmt.Sprint("class ", i)), []float64{float64(i)}
	}
	wide := served.New(model.NewLinear(event.NewSchema(8, classes, 2), "logistic", "none", weights, make([]float64, 300)), recordConfig)
	for i, m := range []*served.Model{trained(1), wide} {
		p := predictor(c, func() *served.Model { return m })
		p.Config.Group = fmt.Sprint("group ", i)
		must.Do(t, p.Run(t.Context()))
		s := p.Stats()
		must.True(t, s.Scored == 3 && s.Refused == 1 && s.Failures <= 0, "%+v", s)
	}
	keys, values := predictions(t, c)
	must.Require(t, len(values) == 8, "%d predictions", len(values))
	for i, p := range values {
		want := []string{"first", long[:256], "odd", "last"}[i%4]
		scored := i < 4 && i != 2
		must.True(t, keys[i] == want && p.Offset == int64(i%4) && (p.Prediction != nil) == scored && (p.Error == "") == scored, "prediction %d: key %.10q…, of %d bytes, %+v", i, keys[i], len(keys[i]), p)
	}
}

// TestFollowOverTLS checks that the client presents its certificate and accepts a server with a certificate of the
// configured authority.
func TestFollowOverTLS(t *testing.T) {
	shown := make(chan int, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown <- len(r.TLS.PeerCertificates)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key := must.Get(x509.MarshalPKCS8PrivateKey(pair.PrivateKey))(t)
	c := predict.DefaultConfig()
	dir := t.TempDir()
	c.CAFile, c.KeyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{c.CAFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, c.KeyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		must.Do(t, os.WriteFile(name, pem.EncodeToMemory(block), 0o600))
	}
	err := c.Check()
	must.True(t, err != nil && strings.HasPrefix(err.Error(), "cert_file: "), "a key without a certificate: %v", err)
	c.CertFile = c.CAFile
	must.Do(t, c.Check())
	asks := must.Get(c.Client())(t)
	defer asks.CloseIdleConnections()
	must.ErrorContains(t, must.Err(served.Open(t.Context(), server.URL, served.Options{Client: asks})), "503")
	must.Equal(t, <-shown, 1, "shown certificates")
	asks, err = predict.DefaultConfig().Client()
	must.True(t, asks == nil && err == nil, "without files: %v, %v", asks, err)
}

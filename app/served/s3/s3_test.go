package s3_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"blankout/app/served"
	"blankout/app/served/s3"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/internal/s3test"
	"blankout/stream/record"
)

func TestMain(m *testing.M) {
	// The tests must not use the environment's cloud credentials.
	for _, name := range []string{"AWS_PROFILE", "AWS_SESSION_TOKEN", "MINIO_ACCESS_KEY"} {
		os.Unsetenv(name)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

const where, path = "s3://models/fraud/newest.blankout", "/models/fraud/newest.blankout"

func trained(version uint64, weight float64) *served.Model {
	recordConfig := record.DefaultConfig()
	recordConfig.Format = "svmlight"
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	schema.NumericIndices = true
	m := served.New(model.NewLinear(schema, "logistic", "none", [][]float64{{weight, -1}}, []float64{0}), recordConfig)
	m.Version, m.At = version, time.Unix(1_700_000_000+int64(version), 0).UTC()
	return m
}

func newStore(t *testing.T) *s3test.Store {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
	s := s3test.Start()
	t.Cleanup(s.Close)
	return s
}

func config(s *s3test.Store) s3.Config {
	return s3.Config{Endpoint: event.Address(s.URL), Region: s3test.Region}
}

func options(c s3.Config) served.Options {
	return served.Options{Interval: 5 * time.Millisecond, Schemes: map[string]served.Opener{"s3": s3.Opener(c)}}
}

func publish(t *testing.T, p *s3.Publisher, m *served.Model) {
	t.Helper()
	must.Do(t, p.Publish(t.Context(), m))
}

func publisher(t *testing.T, s *s3test.Store) *s3.Publisher {
	t.Helper()
	p := must.Get(s3.NewPublisher(t.Context(), config(s), where))(t)
	return p
}

// TestObject checks that a published model is read bit for bit, and that a follower receives newer models. An unchanged
// model must not be sent again.
func TestObject(t *testing.T) {
	s := newStore(t)
	must.ErrorContains(t, must.Err(served.Open(t.Context(), where, options(config(s)))), where, "an object that is not there")
	p := publisher(t, s)
	publish(t, p, trained(1, 0.5))
	must.Equal(t, s.Take(), "GET 404, GET 200, GET 404, PUT 200", "calls")
	f := must.Get(served.Follow(t.Context(), where, options(config(s))))(t)
	defer f.Close()
	m, _ := f.Model()
	got, err := m.Predict([]byte("1 1:3 2:1"), 0)
	must.Require(t, err == nil && m.Version == 1 && got.Scores[0] == 0.5, "version %d, %+v, %v", m.Version, got, err)
	for !strings.Contains(s.Take(), "GET 304") {
		time.Sleep(time.Millisecond)
	}
	publish(t, p, trained(2, 1.5))
	for {
		if m, err := f.Model(); err != nil {
			t.Fatal(err)
		} else if m.Version == 2 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	// The publisher reads the version from the object after a restart.
	again := publisher(t, s)
	must.True(t, again.Version() == 2, "version %d", again.Version())
	small := options(config(s))
	small.MaxBytes = 100
	must.ErrorContains(t, must.Err(served.Open(t.Context(), where, small)), "more than 100 bytes", "a model that is too large")
}

// TestTwoWriters checks that one of two writers of an object is rejected, in any order and with any versions. The
// rejected writer must not replace what the accepted writer has written.
func TestTwoWriters(t *testing.T) {
	s := newStore(t)
	a, b := publisher(t, s), publisher(t, s)
	publish(t, a, trained(1, 1))
	for range 2 { // every later call is rejected too
		taken := (*s3.TakenError)(nil)
		err := b.Publish(t.Context(), trained(9, 2))
		must.Require(t, errors.As(err, &taken), "%v", err)
	}
	publish(t, a, trained(2, 1))
	c := publisher(t, s)
	publish(t, c, trained(3, 1))
	must.ErrorContains(t, a.Publish(t.Context(), trained(4, 1)), "another writer")
	m, err := served.Open(t.Context(), where, options(config(s)))
	must.True(t, err == nil && m.Version == 3, "%v, %v", m, err)
}

// TestLostAnswers checks that a write with a lost response is recognized, when the same model or a newer model is
// published next.
func TestLostAnswers(t *testing.T) {
	s := newStore(t)
	p := publisher(t, s)
	publish(t, p, trained(1, 1))
	s.Take()
	s.Lose(1) // the client library retries, and then the condition fails
	publish(t, p, trained(2, 1))
	must.Equal(t, s.Take(), "PUT 500, PUT 412, GET 200", "calls")
	publish(t, p, trained(3, 1))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Put(path, nil) // as if the request had been executed late
	var b strings.Builder
	must.Do(t, trained(4, 1).Encode(&b))
	must.Fails(t, p.Publish(ctx, trained(4, 1)), "published in no time")
	s.Put(path, []byte(b.String()))
	publish(t, p, trained(5, 1))
	m, err := served.Open(t.Context(), where, options(config(s)))
	must.True(t, err == nil && m.Version == 5, "%v, %v", m, err)
}

// TestCache checks a start while the store is unreachable. The model in the cache is returned first, and the store's
// model once the store responds. If the store responds with an error about the request, the cache must not be used.
func TestCache(t *testing.T) {
	s := newStore(t)
	c := config(s)
	c.Cache = filepath.Join(t.TempDir(), "cache")
	publish(t, publisher(t, s), trained(1, 1))
	must.Do(t, must.Err(served.Open(t.Context(), where, options(c))))
	s.Break(true)
	must.Fails(t, must.Err(served.Open(t.Context(), where, options(config(s)))), "a store that is away was read without a cache")
	f := must.Get(served.Follow(t.Context(), where, options(c)))(t)
	defer f.Close()
	m, _ := f.Model()
	must.True(t, m.Version == 1, "version %d", m.Version)
	s.Break(false)
	publish(t, publisher(t, s), trained(2, 1))
	for {
		if m, _ := f.Model(); m.Version == 2 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	f.Close()
	s.Put(path, nil)
	must.Fails(t, must.Err(served.Open(t.Context(), where, options(c))), "an object that was deleted was taken from the cache")
	entries, err := os.ReadDir(c.Cache)
	must.Require(t, err == nil && len(entries) == 1, "%v, %v", entries, err)
	must.Do(t, os.WriteFile(filepath.Join(c.Cache, entries[0].Name()), []byte("spoilt"), 0o600))
	s.Break(true)
	must.ErrorContains(t, must.Err(served.Open(t.Context(), where, options(c))), entries[0].Name(), "a spoilt cache")
}

// TestForeignObject checks that an object that is not a model is neither read nor replaced, and that a wrong key is an
// error.
func TestForeignObject(t *testing.T) {
	s := newStore(t)
	s.Put(path, []byte("a photograph"))
	must.Fails(t, must.Err(served.Open(t.Context(), where, options(config(s)))), "a photograph was read")
	must.Fails(t, must.Err(s3.NewPublisher(t.Context(), config(s), where)), "a photograph would be replaced")
	must.ErrorContains(t, must.Err(s3.NewPublisher(t.Context(), config(s), "s3://nowhere/key")), "NoSuchBucket", "no bucket")
	for _, bad := range []string{"s3://models", "s3://models/", "s3:///key", "s3://models/dir/", "s3://me@models/key", "s3://models/key?x"} {
		must.ErrorContains(t, must.Err(served.Open(t.Context(), bad, options(config(s)))), "want s3://BUCKET/KEY", bad)
		must.True(t, s3.CheckAddress(bad) != nil, "%s is in order", bad)
	}
	for _, bad := range []string{"", "localhost:9000", "ftp://x", "https://", "https://key:secret@x", "https://x/bucket"} {
		must.True(t, (s3.Config{Endpoint: event.Address(bad)}).Check() != nil, "endpoint %q is in order", bad)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	must.ErrorContains(t, must.Err(served.Open(t.Context(), where, options(config(s)))), "SignatureDoesNotMatch", "a wrong key")
}

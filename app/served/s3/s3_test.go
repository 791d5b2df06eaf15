package s3_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"blankout/app/served"
	"blankout/app/served/s3"
	"blankout/checkpoint"
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

const prefix = "s3://models/fraud/checkpoints"

func openCheckpoints(t *testing.T, s *s3test.Store, keep int) *checkpoint.Store {
	t.Helper()
	objects := must.Get(s3.OpenCheckpoints(config(s), prefix))(t)
	store := must.Get(checkpoint.OpenObjects(objects, keep))(t)
	return store
}

func save(store *checkpoint.Store, text string) error {
	saved, err := store.Save(checkpoint.Linear, slices.Values([]event.Block{{Name: "n", Data: []byte(text)}}))
	return errors.Join(err, saved.Prune)
}

func loaded(t *testing.T, store *checkpoint.Store) (text string, refused []checkpoint.Refusal) {
	t.Helper()
	f, refused, err := store.Load()
	if errors.Is(err, checkpoint.ErrNone) {
		return "", refused
	}
	must.Do(t, err)
	return string(f.Blocks[0].Data), refused
}

// TestCheckpoints checks that the newest checkpoint is loaded and that older checkpoints are removed. If the newest
// checkpoint is damaged, the previous checkpoint must be loaded.
func TestCheckpoints(t *testing.T) {
	s := newStore(t)
	store := openCheckpoints(t, s, 2)
	text, _ := loaded(t, store)
	must.Require(t, text == "" && store.Ousted == "", "%q is there, of %q", text, store.Ousted)
	for i := range 4 {
		must.Do(t, save(store, fmt.Sprint("state ", i)))
	}
	want := []string{"checkpoint-000000000002.blankout", "checkpoint-000000000003.blankout", "lock"}
	must.EqualSlices(t, s.Names("/models/fraud/checkpoints/"), want, "there")
	start, err := store.NextStart()
	must.True(t, err == nil && start == 1, "start %d, %v", start, err)
	must.Do(t, store.Close())
	store = openCheckpoints(t, s, 2)
	text, _ = loaded(t, store)
	must.True(t, text == "state 3" && store.Ousted == "", "loaded %q; ousted %q after an orderly stop", text, store.Ousted)
	start, err = store.NextStart()
	must.True(t, err == nil && start == 2, "start %d, %v", start, err)
	newest := "/models/fraud/checkpoints/" + want[1]
	damaged := slices.Clone(s.Get(newest))
	damaged[len(damaged)/2] ^= 1
	s.Put(newest, damaged)
	text, refused := loaded(t, store)
	must.True(t, text == "state 2" && len(refused) == 1, "loaded %q, refused %v", text, refused)
	aside, err := store.SetAside()
	must.True(t, err == nil && aside == prefix+"/set-aside-000000000003", "set aside as %q, %v", aside, err)
	text, _ = loaded(t, store)
	must.True(t, text == "", "%q is left", text)
	must.EqualSlices(t, s.Names("/models/fraud/checkpoints/set-aside-000000000003/"), want[:2], "set aside")
	err = save(store, "anew")
	must.True(t, err == nil && s.Get("/models/fraud/checkpoints/checkpoint-000000000004.blankout") != nil, "after setting aside: %v, %q", err, s.Names("/models/fraud/checkpoints/"))
}

// TestCheckpointsOfTwo checks two programs with one prefix. The program that starts last owns the prefix. The other
// program gets an error at its next save, and must not change the store.
func TestCheckpointsOfTwo(t *testing.T) {
	s := newStore(t)
	first := openCheckpoints(t, s, 2)
	must.Do(t, save(first, "first"))
	second := openCheckpoints(t, s, 2)
	must.True(t, strings.HasPrefix(second.Ousted, "process "), "ousted %q", second.Ousted)
	must.Do(t, save(second, "second"))
	before := s.Names("/models/fraud/checkpoints/")
	for range 2 {
		err := save(first, "late")
		must.True(t, errors.Is(err, checkpoint.ErrLost) && strings.Contains(err.Error(), prefix), "the first one saves: %v", err)
	}
	must.Do(t, first.Close())
	must.EqualSlices(t, s.Names("/models/fraud/checkpoints/"), before, "there")
	text, _ := loaded(t, second)
	must.True(t, text == "second", "loaded %q", text)
	// A checkpoint is never replaced, even if its writer is very late.
	objects := must.Get(s3.OpenCheckpoints(config(s), prefix))(t)
	must.ErrorIs(t, objects.Write("checkpoint-000000000001.blankout", []byte("late"), ""), checkpoint.ErrTaken, "replaced")
}

// TestCheckpointsOfFailingStore checks a store that fails. If the store is unreachable, only the save fails. If a
// response is lost, the save must succeed.
func TestCheckpointsOfFailingStore(t *testing.T) {
	s := newStore(t)
	store := openCheckpoints(t, s, 2)
	s.Break(true)
	err := save(store, "lost")
	must.True(t, err != nil && !errors.Is(err, checkpoint.ErrLost), "a store out of reach: %v", err)
	s.Break(false)
	s.Lose(1)
	must.Do(t, save(store, "written"), "an answer lost")
	text, _ := loaded(t, store)
	must.True(t, text == "written", "loaded %q", text)
	objects := must.Get(s3.OpenCheckpoints(config(s), "s3://elsewhere/x"))(t)
	_, err = checkpoint.OpenObjects(objects, 2)
	must.True(t, err != nil && !errors.Is(err, fs.ErrNotExist), "no bucket: %v", err)
}

// TestNewestCheckpoint checks that a reader of a prefix gets the newest checkpoint under the prefix, and a newer one when
// it appears.
func TestNewestCheckpoint(t *testing.T) {
	s := newStore(t)
	store := openCheckpoints(t, s, 2)
	for version := range uint64(2) {
		kind, blocks := must.Get2(trained(version+1, float64(version)).Blocks())(t)
		must.Do(t, must.Err(store.Save(kind, blocks)))
		m, err := served.Open(t.Context(), prefix, options(config(s)))
		must.Require(t, err == nil && m.Version == version+1, "version %d, %v", m.Version, err)
	}
	_, at, err := s3.Read(t.Context(), config(s), prefix)
	must.True(t, err == nil && at == prefix+"/checkpoint-000000000001.blankout", "read %s, %v", at, err)
}

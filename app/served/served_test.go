package served_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/batch"
	"blankout/batch/svm"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/kernel"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/serve"
	"blankout/stream"
	"blankout/stream/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// learner returns a Runner over n JSON events of a file, and their record settings.
func learner(dir string, n int) (*run.Runner, record.Config, error) {
	var lines bytes.Buffer
	for i := range n {
		fmt.Fprintf(&lines, `{"sort":"%s","word":"%s%d","x":%d,"id":7}`+"\n", []string{"no", "yes"}[i%2], []string{"n", "y"}[i%2], i%5, i%3)
	}
	path := filepath.Join(dir, "events.jsonl")
	if err := os.WriteFile(path, lines.Bytes(), 0o644); err != nil {
		return nil, record.Config{}, err
	}
	recordConfig := record.DefaultConfig()
	recordConfig.Format, recordConfig.Label, recordConfig.Drop, recordConfig.Classes = "json", "sort", []string{"id", "a,b"}, []string{"no", "yes"}
	schema := recordConfig.Schema()
	source, err := stream.OpenFile(path, recordConfig, schema)
	if err != nil {
		return nil, recordConfig, err
	}
	l, err := online.New(online.DefaultConfig(), schema)
	if err != nil {
		return nil, recordConfig, err
	}
	r := &run.Runner{Config: run.DefaultConfig(), Source: source, State: run.State{Learner: l}, Schema: schema, Fingerprint: recordConfig.Settings(), FirstVersion: 1 << 32}
	r.Config.Refused = run.PolicySkip
	return r, recordConfig, nil
}

// TestSourcesAgree checks that models from a server, from a checkpoint and from encoded bytes predict the same as the
// learner.
func TestSourcesAgree(t *testing.T) {
	dir := t.TempDir()
	r, recordConfig := must.Get2(learner(dir, 300))(t)
	store := must.Get(checkpoint.Open(filepath.Join(dir, "checkpoints"), 2))(t)
	defer store.Close()
	r.Save = func(blocks iter.Seq[event.Block]) (string, int64, error) {
		saved, err := store.Save(checkpoint.Linear, blocks)
		return saved.Name, saved.Bytes, err
	}
	must.Do(t, r.Run(t.Context()))
	c := serve.DefaultConfig()
	c.Address, c.TokenFile = "127.0.0.1:0", filepath.Join(dir, "token")
	must.Do(t, os.WriteFile(c.TokenFile, []byte("open sesame\n"), 0o600))
	server := must.Get(serve.Start(c, serve.Service{Status: r.Status, Model: latest(r.Published, recordConfig)}, slog.New(slog.DiscardHandler)))(t)
	defer server.Close(context.Background())
	must.ErrorContains(t, must.Err(served.Open(t.Context(), server.URL(), served.Options{})), "401", "without the token")
	ev := must.Get(served.Open(t.Context(), server.URL(), served.Options{Token: "open sesame"}))(t)
	saved := must.Get(served.Open(t.Context(), store.Dir(), served.Options{}))(t)
	var file bytes.Buffer
	must.Do(t, ev.Encode(&file))
	again := must.Get(served.Decode(file.Bytes()))(t)
	if p := r.Published(); ev.Version != p.Version || ev.Version <= 1<<32 || len(ev.Offsets) != 1 || ev.Offsets[0] != p.Offsets[0] || again.Version != p.Version {
		t.Errorf("served version %d at %v, published %d at %v", ev.Version, ev.Offsets, p.Version, p.Offsets)
	}
	event := []byte(`{"word":"y2","x":2,"id":9,"sort":"whatever"}`)
	live := served.New(r.Published().Linear, recordConfig)
	want, err := live.Predict(event, 5)
	must.Require(t, err == nil && want.Class == "yes" && want.Probability > 0.5, "%+v, %v", want, err)
	for name, m := range map[string]*served.Model{"server": ev, "checkpoint": saved, "bytes": again} {
		got, err := m.Predict(event, 5)
		must.Equal(t, got.Version == ev.Version, name != "checkpoint", name, "has the version of the event")
		got.Version = 0
		must.True(t, err == nil && fmt.Sprint(got) == fmt.Sprint(want), "%s: %+v, %v, want %+v", name, got, err, want)
		_, err = m.Predict([]byte("{"), 0)
		must.True(t, served.IsRefused(err), "%s: a spoilt event: %v", name, err)
	}
	// The contributions must add up to the score.
	all, err := live.Predict(event, 100)
	sum := 0.0
	for i, c := range all.Explanation {
		sum += c.Score
		must.True(t, i <= 0 || math.Abs(c.Score) <= math.Abs(all.Explanation[i-1].Score), "%+v is out of order", c)
	}
	must.True(t, err == nil && len(all.Explanation) >= 3 && math.Abs(sum-all.Scores[0]) <= 1e-12, "explanations add up to %v, score %v: %+v", sum, all.Scores, all.Explanation)
	for i := range file.Len() {
		if i%97 == 0 {
			_, err := served.Decode(file.Bytes()[:i])
			must.Require(t, errors.Is(err, checkpoint.ErrDamaged) || errors.Is(err, checkpoint.ErrForeign), "cut at %d: %v", i, err)
		}
	}
}

// TestRegression checks that a model with linear loss predicts a score and no class.
func TestRegression(t *testing.T) {
	recordConfig := record.DefaultConfig()
	recordConfig.Format, recordConfig.Bits = "svmlight", 4
	schema := recordConfig.Schema()
	for loss, want := range map[string]string{
		"linear:gaussian":   `{"value":2.5,"score":2.5,"scores":[2.5],"noise_level":"none","explanation":[{"feature":"1","value":1,"weight":2,"score":2},{"feature":"(intercept)","value":1,"weight":0.5,"score":0.5}]}`,
		"logistic:gaussian": `{"class":"1","probability":0.9241418199787566,"probabilities":{"0":0.07585818002124345,"1":0.9241418199787566},"score":2.5,"scores":[2.5],"noise_level":"none","explanation":[{"feature":"1","value":1,"weight":2,"score":2},{"feature":"(intercept)","value":1,"weight":0.5,"score":0.5}]}`,
	} {
		m := served.New(model.NewLinear(schema, loss, "none", [][]float64{{2, 0, 0, 0}}, []float64{0.5}), recordConfig)
		p := must.Get(m.Predict([]byte("0 1:1"), 3))(t)
		got, _ := json.Marshal(p)
		must.True(t, string(got) == want, "%s: %s, want %s", loss, got, want)
	}
}

// TestFollow runs followers, predictions and a learner at the same time, for the race detector. Versions must never
// decrease.
func TestFollow(t *testing.T) {
	r, recordConfig := must.Get2(learner(t.TempDir(), 3000))(t)
	r.Config.PublishEvents = 1
	c := serve.DefaultConfig()
	c.Address = "127.0.0.1:0"
	server := must.Get(serve.Start(c, serve.Service{Status: r.Status, Model: latest(r.Published, recordConfig)}, slog.New(slog.DiscardHandler)))(t)
	defer server.Close(context.Background())
	var once sync.Once
	var watching sync.WaitGroup
	ended := make(chan struct{})
	r.Observe = func(*run.Status) {
		once.Do(func() {
			for range 2 {
				f, err := served.Follow(t.Context(), server.URL(), served.Options{Interval: time.Millisecond})
				if err != nil {
					t.Error(err)
					return
				}
				for range 2 {
					watching.Go(func() {
						version := uint64(0)
						for {
							m, err := f.Model()
							must.True(t, err == nil && m.Version >= version, "version %d after %d, %v", m.Version, version, err)
							version = m.Version
							_, err = m.Predict([]byte(`{"word":"y1","x":1,"new":"field"}`), 3)
							must.True(t, err == nil, "%v", err)
							select {
							case <-ended:
								if m.Version == r.Published().Version {
									return
								}
							default:
							}
						}
					})
				}
				t.Cleanup(f.Close)
			}
		})
	}
	must.Do(t, r.Run(t.Context()))
	close(ended)
	watching.Wait()
}

func Example() {
	dir, err := os.MkdirTemp("", "client")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	r, recordConfig, err := learner(dir, 200) // takes the role of the service that learns
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := r.Run(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	config := serve.DefaultConfig()
	config.Address = "127.0.0.1:0"
	server, err := serve.Start(config, serve.Service{Status: r.Status, Model: latest(r.Published, recordConfig)}, slog.New(slog.DiscardHandler))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close(context.Background())

	// Your own program contains the code from here on.
	m, err := served.Open(context.Background(), server.URL(), served.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := m.Predict([]byte(`{"word": "y3", "x": 1}`), 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Class, p.Probability > 0.5, p.Explanation[0].Feature)
	// Output: yes true word=y3
}

// TestUnseenError checks that a model that has learned nothing is named as the reason, and fields of another kind are.
func TestUnseenError(t *testing.T) {
	s := event.NewSchema(8, nil, 2)
	s.Fields = append(s.Fields, event.Field{Name: "x", Kind: event.Numeric})
	m := served.New(model.NewLinear(s, "logistic", "none", [][]float64{{1}}, []float64{0}), record.DefaultConfig())
	must.Equal(t, m.UnseenError([]string{"x"}).Error(), "the model has not learned any event yet")
	m.Events = 1
	s.Fields = append(s.Fields, event.Field{Name: "c", Kind: event.Categorical})
	must.Equal(t, m.UnseenError([]string{"c", "c=2", "x"}).Error(), "the model has seen no feature of the event: c (c is categorical in the model), c=2, x")
	must.Equal(t, m.UnseenError([]string{"y=1", "x=1"}).Error(), "the model has seen no feature of the event: y=1, x=1 (x is numeric in the model)")
}

// latest returns a function that returns the newest model of a Runner.
func latest(published func() *run.Published, c record.Config) func() *served.Model {
	models := serve.Newest(published, func() *record.Config { return &c }, func(_ string, c record.Config) record.Config { return c })
	return func() *served.Model { return models("") }
}

// kernelModel returns a model that predicts yes near (1, 1) and no near (-1, -1).
func kernelModel(t testing.TB) *served.Model {
	t.Helper()
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	schema.NumericIndices = true
	var b batch.Builder
	for _, x := range []float32{-1, 1} {
		v := event.Vec{Index: []uint32{0, 1}, Value: []float64{float64(x), float64(x)}}
		must.Do(t, b.Add(&event.Example{Features: v, Weight: 1}))
	}
	k := must.Get(kernel.Parse("rbf:0.5"))(t)
	m, err := svm.NewModel(model.Head{Schema: schema, Loss: "dropsvm", Noise: "none", Outputs: 1, Intercept: []float64{0}, Layout: model.Layout{Stats: -1}}, k, b.Data(schema), []float64{-1, 1})
	must.Do(t, err)
	recordConfig := record.DefaultConfig()
	recordConfig.Format = "svmlight"
	return served.New(m, recordConfig)
}

// TestKernelModel checks that a kernel model predicts the same from a file as in memory, and has no explanations.
func TestKernelModel(t *testing.T) {
	m := kernelModel(t)
	path := filepath.Join(t.TempDir(), "kernel")
	must.Do(t, m.WriteFile(path))
	read := must.Get(served.Open(t.Context(), path, served.Options{}))(t)
	for event, class := range map[string]string{"0 1:0.9 2:1.1": "yes", "0 1:-2 2:-1": "no"} {
		want, err := m.Predict([]byte(event), 0)
		must.True(t, err == nil && want.Class == class, "%s: %+v, %v", event, want, err)
		got, err := read.Predict([]byte(event), 0)
		must.True(t, err == nil && fmt.Sprint(got) == fmt.Sprint(want), "%s: %+v, %v, want %+v", event, got, err, want)
	}
	must.ErrorContains(t, must.Err(read.Predict([]byte("0 1:1"), 3)), "a kernel model (rbf:0.5, 2 support vectors) cannot say", "an explanation")
	must.Equal(t, must.Get(checkpoint.ReadFile(path))(t).Kind, checkpoint.Kernel)
}

// TestDependencies checks that package served imports neither a Kafka client nor a linear algebra library. A program
// that follows a topic imports served/kafka for the Kafka client.
func TestDependencies(t *testing.T) {
	heavyOf := func(pkg string) (found []string) {
		t.Helper()
		out, err := exec.Command("go", "list", "-deps", pkg).CombinedOutput()
		must.Require(t, err == nil, "go list -deps %s: %v\n%s", pkg, err, out)
		for name := range strings.FieldsSeq(string(out)) {
			for _, heavy := range []string{"gonum.org", "blankout/batch", "blankout/stream$", "github.com/segmentio/kafka-go", "github.com/twmb/franz-go/pkg/k"} {
				if strings.Contains(name+"$", heavy) {
					found = append(found, name)
				}
			}
		}
		return found
	}
	found := heavyOf(".")
	must.True(t, len(found) <= 0, "package served brings %q", found)
	found = heavyOf("./kafka")
	must.True(t, len(found) != 0, "package served/kafka brings no client of Kafka: the names that are looked for are not those of today")
}

// FuzzModel reads models with correct checksums and one altered block, as from a hostile server or another program.
// Reading must fail, or the model must predict; it must never panic.
func FuzzModel(f *testing.F) {
	r, record := must.Get2(learner(f.TempDir(), 50))(f)
	must.Do(f, r.Run(f.Context()))
	var files []*checkpoint.File
	var kernel bytes.Buffer
	must.Do(f, kernelModel(f).Encode(&kernel))
	var linear bytes.Buffer
	must.Do(f, served.New(r.Published().Linear, record).Encode(&linear))
	for i, data := range [][]byte{linear.Bytes(), kernel.Bytes()} {
		file := must.Get(checkpoint.Decode(data))(f)
		files = append(files, file)
		for _, b := range file.Blocks {
			if len(b.Data) < 10_000 {
				f.Add(i == 1, b.Name, b.Data)
			}
		}
	}
	f.Add(false, "model", []byte(`{"schema":{"bits":8,"classes":["a","b"],"max_classes":2,"fields":[{"name":"","kind":"sparse"}]},"outputs":1,"intercept":[0],"layout":{"width":1,"weight":9223372036854775807,"stats":-1}}`))
	f.Add(false, "model", []byte(`{"schema":{"bits":8,"classes":[],"max_classes":0,"fields":[]},"outputs":1,"intercept":[0],"layout":{"width":46,"weight":0,"stats":45}}`))
	f.Fuzz(func(t *testing.T, isKernel bool, name string, data []byte) {
		file := files[0]
		if isKernel {
			file = files[1]
		}
		blocks := slices.Clone(file.Blocks)
		for i := range blocks {
			if blocks[i].Name == name {
				blocks[i].Data = data
			}
		}
		var b bytes.Buffer
		must.Do(t, checkpoint.Write(&b, file.Kind, slices.Values(blocks)))
		m, err := served.Decode(b.Bytes())
		if err != nil {
			return
		}
		for _, event := range []string{`{"word":"y1","x":1,"none":null}`, "0 1:2 3:4", "", "1 |a b c:2"} {
			_, _ = m.Predict([]byte(event), 0)
			_, _ = m.Predict([]byte(event), 3)
		}
		var again bytes.Buffer
		must.Do(t, m.Encode(&again), "a model that is read but cannot be written")
	})
}

// TestPackedAnswer checks that a compressed response is rejected, because a megabyte may decompress to a gigabyte.
func TestPackedAnswer(t *testing.T) {
	var packed bytes.Buffer
	w := must.Get(gzip.NewWriterLevel(&packed, gzip.BestCompression))(t)
	for range 64 {
		must.Get(w.Write(make([]byte, 1<<20)))(t)
	}
	must.Do(t, w.Close())
	sent := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		must.Equal(t, r.Header.Get("Accept-Encoding"), "identity")
		w.Header().Set("Content-Encoding", "gzip")
		sent++
		w.WriteHeader([]int{0, http.StatusOK, http.StatusBadGateway}[sent])
		w.Write(packed.Bytes())
	}))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	for range 2 {
		must.ErrorContains(t, must.Err(served.Open(t.Context(), server.URL, served.Options{})), `compressed ("gzip")`)
	}
	must.Equal(t, sent, 2)
}

// TestUnchangedModel checks that a Follower does not download a model that it already has. The Follower sends the ETag
// of its model, and gets the model only if the ETag has changed.
func TestUnchangedModel(t *testing.T) {
	var sent, unchanged atomic.Int64
	var version atomic.Uint64
	version.Store(1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tag := fmt.Sprintf("%q", fmt.Sprint("model-", version.Load()))
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			unchanged.Add(1)
			w.WriteHeader(http.StatusNotModified)
			return
		}
		sent.Add(1)
		m := served.New(model.NewLinear(event.NewSchema(8, nil, 2), "logistic", "none", [][]float64{{1}}, []float64{0}), record.DefaultConfig())
		m.Version = version.Load()
		must.Do(t, m.Encode(w))
	}))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	f := must.Get(served.Follow(t.Context(), server.URL, served.Options{Interval: time.Millisecond}))(t)
	defer f.Close()
	for want := uint64(1); want <= 2; want++ {
		version.Store(want)
		unchanged.Store(0)
		for n := 0; unchanged.Load() < 3; n++ {
			must.Require(t, n < 5000, "no request named the model that the follower has")
			time.Sleep(time.Millisecond)
		}
		must.Equal(t, must.Get(f.Model())(t).Version, want, "version")
		must.Equal(t, sent.Load(), int64(want), "models sent")
	}
}

// TestTokenStays checks that a redirect sends the token only to the same server: not to another port, and not without
// TLS.
func TestTokenStays(t *testing.T) {
	var trained bytes.Buffer
	m := served.New(model.NewLinear(event.NewSchema(8, nil, 2), "logistic", "none", [][]float64{{1}}, []float64{0}), record.DefaultConfig())
	must.Do(t, m.Encode(&trained))
	var mu sync.Mutex
	var got []string
	answer := func(name, to string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			got = append(got, name+r.URL.Path+" "+r.Header.Get("Authorization"))
			mu.Unlock()
			if to != "" && r.URL.Path == "/v1/model" {
				http.Redirect(w, r, to, http.StatusTemporaryRedirect)
				return
			}
			io.Copy(w, bytes.NewReader(trained.Bytes()))
		})
	}
	other := httptest.NewServer(answer("other", ""))
	defer other.Close()
	for _, c := range []struct {
		name, to string
		tls      bool
		want     string
	}{
		{"another port", other.URL + "/model", false, "one/v1/model Bearer open sesame, other/model "},
		{"without TLS", other.URL + "/model", true, "one/v1/model Bearer open sesame, other/model "},
		{"another path", "/model", false, "one/v1/model Bearer open sesame, one/model Bearer open sesame"},
	} {
		got = nil
		one := httptest.NewUnstartedServer(answer("one", c.to))
		if c.tls {
			one.StartTLS()
		} else {
			one.Start()
		}
		must.Do(t, must.Err(served.Open(t.Context(), one.URL, served.Options{Token: "open sesame", Client: one.Client()})), c.name)
		must.Equal(t, strings.Join(got, ", "), c.want, c.name)
		one.Close()
	}
	loop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }))
	defer loop.Close()
	must.ErrorContains(t, must.Err(served.Open(t.Context(), loop.URL, served.Options{Client: loop.Client()})), "10 redirects", "an endless redirect")
}

package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/batch"
	"blankout/batch/svm"
	"blankout/batch/validate"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/kernel"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/internal/streamtest"
	"blankout/online"
	"blankout/serve"
	"blankout/serve/predict"
	"blankout/stream"
	"blankout/stream/record"
	"blankout/stream/registry"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sharing{m}) }

// learned returns a Runner and its Service. The Runner has learned a small file of JSON events, some of which are
// invalid.
func learned(t testing.TB) (*run.Runner, serve.Service) {
	t.Helper()
	var lines bytes.Buffer
	for i := range 400 {
		label := must.Either(i%2 == 1, "yes", "no")
		fmt.Fprintf(&lines, `{"label":%q,"ts":%d,"word":"%s%d","x":%d}`+"\n", label, time.Now().UnixMilli(), label, i%5, i%3)
		if i%100 == 7 {
			lines.WriteString("{spoilt\n")
		}
	}
	return runnerOver(t, lines.Bytes())
}

// runnerOver returns a Runner for these lines, and its Service.
func runnerOver(t testing.TB, lines []byte) (*run.Runner, serve.Service) {
	t.Helper()
	return runnerOf(t, online.DefaultConfig(), lines)
}

// runnerOf is runnerOver with a given configuration of the learner.
func runnerOf(t testing.TB, c online.Config, lines []byte) (*run.Runner, serve.Service) {
	t.Helper()
	path := must.File(t, "events.jsonl", lines)
	recordConfig := written()
	recordConfig.KeepValue, recordConfig.Target = true, loss.LabelsOf(c.Loss)
	schema := recordConfig.Schema()
	source := must.Get(stream.OpenFile(path, recordConfig, schema))(t)
	t.Cleanup(func() { source.Close() })
	learner := must.Get(online.New(c, schema))(t)
	r := &run.Runner{Config: run.DefaultConfig(), Source: source, State: run.State{Learner: learner}, Schema: schema}
	r.Config.Refused = run.PolicySkip
	return r, serve.Service{
		Version: "v1.2.3", Recent: r.Recent, Status: r.Status, Model: latest(r.Published, recordConfig),
		Source: func() *stream.ConsumerStats {
			return &stream.ConsumerStats{Retries: map[string]uint64{"timeout": 3}}
		},
	}
}

// written returns the record settings for the events of learned.
func written() record.Config {
	c := record.DefaultConfig()
	c.Format, c.Time = "json", "ts"
	return c
}

func start(t testing.TB, c serve.Config, s serve.Service) string {
	t.Helper()
	c.Address = "127.0.0.1:0"
	server := must.Get(serve.Start(c, s, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		must.Do(t, server.Close(context.Background()))
	})
	return server.URL()
}

// call sends a request and checks the response against openapi.json.
func call(t *testing.T, method, url, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	request := must.Get(http.NewRequest(method, url, strings.NewReader(body)))(t)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response := must.Get(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	text := must.Get(io.ReadAll(response.Body))(t)
	wrong := asDocumented(request, response.StatusCode, response.Header, text)
	must.True(t, wrong == nil, "%s %s: %d %.300s is not as openapi.json says: %v", method, url, response.StatusCode, text, wrong)
	return response.StatusCode, string(text), response.Header
}

// answers sends a request. It checks that the response has the given status and that its text contains part.
func answers(t *testing.T, status int, part, method, url, body string, headers ...string) {
	t.Helper()
	got, text, _ := call(t, method, url, body, headers...)
	must.True(t, got == status && strings.Contains(text, part), "%s %s %.500s: got %d %.500s, want %d with %q", method, url, body, got, text, status, part)
}

// decoded sends a request, decodes the JSON of its successful response into v and returns the JSON.
func decoded(t *testing.T, v any, method, url, body string, headers ...string) string {
	t.Helper()
	status, text, _ := call(t, method, url, body, headers...)
	err := json.Unmarshal([]byte(text), v)
	must.Require(t, err == nil && status == http.StatusOK, "%s %s %.500s: %d %.500s, %v", method, url, body, status, text, err)
	return text
}

func TestEndpoints(t *testing.T) {
	runner, service := learned(t)
	url := start(t, serve.DefaultConfig(), service)
	var before, during, after []string
	ask := func() (answers []string) {
		for _, r := range []struct{ method, path, body string }{
			{"GET", "/healthz", ""}, {"GET", "/readyz", ""}, {"GET", "/nothing", ""}, {"POST", "/metrics", ""},
			{"POST", "/v1/predict", ""}, {"POST", "/v1/predict", "[1"}, {"POST", "/v1/predict", `{"x":`},
			{"POST", "/v1/predict", "[1 2]"}, {"POST", "/v1/predict", "[1, 2] 3"},
		} {
			status, text, header := call(t, r.method, url+r.path, r.body)
			if status != 200 {
				var e struct{ Error, Where string }
				err := json.Unmarshal([]byte(text), &e)
				must.True(t, err == nil && e.Error != "" && e.Where != "" && header.Get("Content-Type") == "application/json", "%s %s: %d %q", r.method, r.path, status, text)
			}
			answers = append(answers, fmt.Sprintf("%d %s", status, strings.TrimSpace(text)))
		}
		return answers
	}
	before = ask()
	runner.Observe = func(s *run.Status) {
		if s.NotReady == "" && during == nil {
			during = ask()
		}
	}
	must.Do(t, runner.Run(t.Context()))
	after = ask()
	for i, want := range []string{`200 {"healthy":true}`, `503 {"error":"not ready: not started","where":"/readyz"}`,
		`404 {"error":"Not Found","where":"/nothing"}`, `405 {"error":"Method Not Allowed","where":"/metrics"}`,
		`503 {"error":"no model has been published yet","where":"/v1/predict"}`} {
		must.Equal(t, before[i], want, "before")
	}
	for i, want := range []string{`400 {"error":"no events","where":"body"}`, `400 {"error":"unexpected EOF","where":"event 1"}`, `400 {"error":"unexpected EOF","where":"event 0"}`,
		`400 {"error":"expected comma after array element","where":"event 1"}`, `400 {"error":"\"3\" after the array","where":"event 2"}`} {
		must.Equal(t, after[4+i], want, "after")
	}
	must.Equal(t, during[1], `200 {"ready":true}`, "during")
	must.Equal(t, after[1], `503 {"error":"not ready: stopped","where":"/readyz"}`, "after")
}

// TestStaleness checks the number of records by which the published model is behind. The number must include held-out
// records, which are never learned.
func TestStaleness(t *testing.T) {
	m := served.New(model.NewLinear(event.NewSchema(8, nil, 2), "logistic", "none", [][]float64{{1}}, []float64{0}), record.DefaultConfig())
	m.Offsets = event.Offsets{{Topic: "t", Next: 12, Records: 12}}
	status := run.Status{Counts: run.Counts{Learned: 10, HeldOut: 5}, Partitions: []run.PartitionStatus{{Position: event.Position{Topic: "t", Next: 15, Records: 15}}}}
	url := start(t, serve.DefaultConfig(), serve.Service{Status: func() *run.Status { return &status }, Model: func() *served.Model { return m }})
	_, text, _ := call(t, "GET", url+"/metrics", "")
	must.True(t, strings.Contains(text, "\nblankout_model_staleness_records 3\n"), "%v", text)
}

// TestFailingPartitions checks that partitions that cannot be read make a running service not ready.
func TestFailingPartitions(t *testing.T) {
	var stats stream.ConsumerStats
	service := serve.Service{
		Status: func() *run.Status { return &run.Status{} },
		Source: func() *stream.ConsumerStats { return &stats },
	}
	url := start(t, serve.DefaultConfig(), service)
	for want, failing := range map[string][]string{
		`200 {"ready":true}`: {"", "", ""},
		`503 {"error":"not ready: t/1 cannot be read (timeout)","where":"/readyz"}`:                         {"", "timeout", ""},
		`503 {"error":"not ready: t/0 cannot be read (no-leader) and 1 more partitions","where":"/readyz"}`: {"no-leader", "", "timeout"},
	} {
		stats.Partitions = nil
		for i, cause := range failing {
			stats.Partitions = append(stats.Partitions, stream.PartitionStats{Topic: "t", Partition: int32(i), Failing: cause})
		}
		status, text, _ := call(t, "GET", url+"/readyz", "")
		must.Equal(t, fmt.Sprintf("%d %s", status, strings.TrimSpace(text)), want, failing)
	}
}

// TestRefusedSchemas checks that a service is not ready if all its records are rejected because of their schemas.
func TestRefusedSchemas(t *testing.T) {
	client := must.Get(registry.New(registry.Config{URL: "http://127.0.0.1:1"}, nil))(t)
	url := start(t, serve.DefaultConfig(), serve.Service{Status: func() *run.Status { return &run.Status{} }, Registry: client})
	for range 10 {
		client.Use(errors.New("schema 7: none"))
	}
	answers(t, 503, "schema 7: none", "GET", url+"/readyz", "")
	client.Use(nil)
	answers(t, 200, "", "GET", url+"/readyz", "")
}

func TestMetrics(t *testing.T) {
	runner, service := learned(t)
	url := start(t, serve.DefaultConfig(), service)
	// The size of the next checkpoint is unknown and must not be reported as 0.
	status, text, _ := call(t, "GET", url+"/metrics", "")
	must.True(t, status == 200 && strings.Contains(text, "blankout_ready 0") && !strings.Contains(text, "\nblankout_learner_events"), "before the run: %d %s", status, text)
	must.Do(t, runner.Run(t.Context()))
	_, text, _ = call(t, "GET", url+"/metrics", "")
	for _, want := range []string{
		`blankout_build_info{go="go`, `version="v1.2.3"} 1`,
		`blankout_events_total{outcome="learned"} 400`, `blankout_events_total{outcome="refused"} 4`, `blankout_refused_total{reason="syntax"} 4`,
		`blankout_fetch_retries_total{cause="timeout"} 3`,
		`events.jsonl"} 404`, `blankout_progressive_error_ratio{span="total"} 0.`, `blankout_progressive_log_loss_nats{span="window"} 0.`,
		"\nblankout_learner_events 400\n", "go_goroutines", "process_cpu_seconds_total",
	} {
		must.Contains(t, text, want)
	}
	problems := must.Get(promlint.New(strings.NewReader(text)).Lint())(t)
	for _, p := range problems {
		must.True(t, !strings.HasPrefix(p.Metric, "blankout_"), "%s: %s", p.Metric, p.Text)
	}
}

func TestModel(t *testing.T) {
	runner, service := learned(t)
	url := start(t, serve.DefaultConfig(), service)
	answers(t, 503, "", "GET", url+"/v1/model", "")
	must.Do(t, runner.Run(t.Context()))
	status, text, header := call(t, "GET", url+"/v1/model", "")
	file, err := checkpoint.Decode([]byte(text))
	must.Require(t, status == 200 && err == nil && file.Kind == checkpoint.Linear, "%v %v", status, err)
	m, err := model.ReadLinear(file.Blocks)
	must.True(t, err == nil && m.Events == 400, "%+v, %v", m, err)
	etag := header.Get("ETag")
	for _, c := range []struct {
		accept, match string
		status        int
	}{{"", etag, 304}, {"", `"x", W/` + etag, 304}, {"", `"x"`, 200}, {"application/json", etag, 200}} {
		status, text, header := call(t, "GET", url+"/v1/model", "", "If-None-Match", c.match, "Accept", c.accept)
		must.True(t, status == c.status && (status == 304) == (text == "") && (header.Get("ETag") == etag) == (c.accept == ""), "%+v: %d, %d bytes, %s", c, status, len(text), header.Get("ETag"))
	}
}

func TestPredict(t *testing.T) {
	runner, service := learned(t)
	config := serve.DefaultConfig()
	config.MaxBody = 2000
	url := start(t, config, service)
	must.Do(t, runner.Run(t.Context()))
	for _, body := range []string{
		`{"word":"yes1","x":1}` + "\n" + `{"word":"no2","x":1,"label":"no"}` + "\n" + `{"word":true,"word":1}`,
		`[{"word":"yes1","x":1},{"word":"no2","x":1},{"word":true,"word":1}]`,
	} {
		var answer struct {
			Events      uint64
			Predictions []struct {
				Class, Error, Where string
				Probability         float64
				Scores              []float64
			}
		}
		text := decoded(t, &answer, "POST", url+"/v1/predict", body)
		must.Require(t, len(answer.Predictions) == 3 && answer.Events == 400, "%s", text)
		p := answer.Predictions
		must.True(t, p[0].Class == "yes" && p[1].Class == "no" && p[0].Probability >= 0.5 && p[1].Probability >= 0.5 && p[0].Scores[0] > 0, "%+v", p)
		must.True(t, strings.HasPrefix(p[2].Error, "duplicate-field") && p[2].Where == "event 2", "%+v", p[2])
	}
	answers(t, 413, "", "POST", url+"/v1/predict", strings.Repeat("x", 3000))
}

// TestTooManyRequests sends many concurrent requests. A request must be answered, wait, or be rejected immediately with
// an error and a retry time. The test's clock advances only while all goroutines wait.
func TestTooManyRequests(t *testing.T) {
	runner, service := learned(t)
	must.Do(t, runner.Run(t.Context()))
	synctest.Test(t, func(t *testing.T) {
		config := serve.DefaultConfig()
		config.MaxPredicting = 1
		handler := serve.Handler(config, service)
		ask := func(ctx context.Context, body io.Reader) *httptest.ResponseRecorder {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, "POST", "http://localhost/v1/predict", body))
			return answer
		}
		event := func() io.Reader { return strings.NewReader(`{"word":"yes1"}`) }
		var waiting sync.WaitGroup
		defer waiting.Wait()
		// A request with an endless body occupies the only place.
		slow, body := io.Pipe()
		defer body.Close()
		waiting.Go(func() { ask(t.Context(), slow) })
		synctest.Wait()

		began := time.Now()
		answer := ask(t.Context(), event())
		must.True(t, answer.Code == 503 && answer.Header().Get("Retry-After") == "1" && strings.Contains(answer.Body.String(), "too many"),
			"waiting in vain: %d %s %v", answer.Code, answer.Body, answer.Header())
		must.Equal(t, time.Since(began), time.Second, "the wait for its turn")
		// A client that disconnects while waiting gets no response and is not counted.
		gone, leave := context.WithCancel(t.Context())
		waiting.Go(func() {
			answer := ask(gone, event())
			must.True(t, answer.Body.Len() <= 0, "one who had left is told %s", answer.Body)
		})
		synctest.Wait()
		leave()
		synctest.Wait()

		answers := make(chan int, 40)
		for range cap(answers) {
			waiting.Go(func() { answers <- ask(t.Context(), event()).Code })
		}
		synctest.Wait()
		must.Require(t, len(answers) == cap(answers)-16, "%d of %d are answered at once, want all but the 16 of the queue", len(answers), cap(answers))
		for range cap(answers) - 16 {
			must.Equal(t, <-answers, 503, "while the queue is full")
		}
		body.Close() // frees the place
		for range 16 {
			must.Equal(t, <-answers, 200, "for one that waited")
		}
		metrics := httptest.NewRecorder()
		handler.ServeHTTP(metrics, httptest.NewRequest("GET", "http://localhost/metrics", nil))
		for _, line := range []string{
			`blankout_predict_requests_total{outcome="turned-away"} 25`, `blankout_predict_requests_total{outcome="answered"} 16`,
			"blankout_predict_requests_active 0",
		} {
			must.Contains(t, metrics.Body.String(), line+"\n")
		}
	})
}

// TestFollowedKernelModel checks a service that follows a kernel model. It must return the model and predict with it.
func TestFollowedKernelModel(t *testing.T) {
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	schema.NumericIndices = true
	var b batch.Builder
	for _, x := range []float64{-1, 1} {
		must.Do(t, b.Add(&event.Example{Features: event.Vec{Index: []uint32{0}, Value: []float64{x}}, Weight: 1}))
	}
	machine, err := svm.NewModel(model.Head{Schema: schema, Loss: "dropsvm", Noise: "none", Outputs: 1, Intercept: []float64{0}, Layout: model.Layout{Stats: -1}},
		kernel.RBF{Sigma: 1}, b.Data(schema), []float64{-1, 1})
	must.Do(t, err)
	recordConfig := record.DefaultConfig()
	recordConfig.Format = "svmlight"
	model := served.New(machine, recordConfig)
	model.Version = 7
	stats := &predict.Stats{LastError: "no model has been published yet"}
	url := start(t, serve.DefaultConfig(), serve.Service{Model: func() *served.Model { return model }, Predictions: func() *predict.Stats { return stats }})
	answers(t, 503, "predictions: no model has been published yet", "GET", url+"/readyz", "")
	stats = &predict.Stats{Scored: 3}
	answers(t, 200, "", "GET", url+"/readyz", "")
	status, text, _ := call(t, "POST", url+"/v1/predict", "0 1:2\n0 1:-2\n")
	must.True(t, status == 200 && strings.Contains(text, `"version":7`) && strings.Contains(text, `"class":"yes"`) && strings.Contains(text, `"class":"no"`), "%d %s", status, text)
	answers(t, 400, "a kernel model (rbf:1, 2 support vectors) cannot say", "POST", url+"/v1/predict?explain=2", "0 1:2")
	answers(t, 200, `"kernel":"rbf:1","support_vectors":2`, "GET", url+"/v1/model", "", "Accept", "application/json")
	answers(t, 400, "no feature weights", "GET", url+"/v1/model?weights=1", "", "Accept", "application/json")
	read, err := served.Open(t.Context(), url, served.Options{})
	must.True(t, err == nil && read.Kind() == "kernel" && read.Version == 7, "%+v, %v", read, err)
	for _, name := range []string{"blankout_model_version 7", `blankout_predictions_total{outcome="scored"} 3`, "blankout_prediction_ready 1", "blankout_ready 1"} {
		_, text, _ := call(t, "GET", url+"/metrics", "")
		must.True(t, strings.Contains(text, "\n"+name+"\n"), "no %s", name)
	}
}

func TestModelJSON(t *testing.T) {
	runner, service := learned(t)
	runner.FirstVersion = 5 << 32
	url := start(t, serve.DefaultConfig(), service)
	answers(t, 503, "", "GET", url+"/v1/model/offsets", "")
	must.Do(t, runner.Run(t.Context()))
	var where, whole struct {
		Version, Events uint64
		Offsets         event.Offsets
		Model           *model.Head
		Weights         []struct {
			Column  uint32
			Feature string
			Weights []float64
		}
	}
	text := decoded(t, &where, "GET", url+"/v1/model/offsets", "")
	must.True(t, where.Version > 5<<32 && where.Events == 400 && len(where.Offsets) == 1 && where.Offsets[0].Records == 404, "%s", text)
	_, text, header := call(t, "GET", url+"/v1/model?weights=1", "", "Accept", "application/json")
	must.Do(t, json.Unmarshal([]byte(text), &whole))
	m := runner.Published().Linear
	must.True(t, whole.Version == where.Version && header.Get("Blankout-Version") == fmt.Sprint(where.Version) && whole.Model.Events == 400 && len(whole.Weights) == m.Rows.Len(),
		"version %d, head %+v, %d columns", whole.Version, whole.Model, len(whole.Weights))
	named := map[string]float64{}
	for _, w := range whole.Weights {
		must.Equal(t, w.Weights[0], m.Weight(w.Column, 0), w)
		named[w.Feature] = w.Weights[0]
	}
	must.True(t, named["word=yes1"] > 0 && named["word=no1"] < 0, "%v", named)
	_, text, _ = call(t, "GET", url+"/v1/model", "", "Accept", "application/json")
	must.True(t, !strings.Contains(text, "yes1") && strings.Contains(text, `"intercept"`), "the head: %s", text)
}

// TestThreshold checks that predictions use the learner's threshold.
func TestThreshold(t *testing.T) {
	runner, service := learned(t)
	config := online.DefaultConfig()
	config.Threshold = 1 - 1e-12
	runner.Learner = must.Get(online.New(config, runner.Schema))(t)
	url := start(t, serve.DefaultConfig(), service)
	must.Do(t, runner.Run(t.Context()))
	var answer struct {
		Predictions []struct {
			Class       string
			Probability float64
			Scores      []float64
			Explanation []struct {
				Feature              string
				Value, Weight, Score float64
			}
		}
	}
	decoded(t, &answer, "POST", url+"/v1/predict?explain=2", `{"word":"yes1","x":1}`)
	p := answer.Predictions[0]
	must.True(t, p.Class == "no" && p.Scores[0] > 0 && p.Probability < 0.5 && len(p.Explanation) == 2 && p.Explanation[0].Feature == "word=yes1", "%+v", p)
	answers(t, 400, "", "POST", url+"/v1/predict?explain=1000000", `{}`)
}

// TestBrowsersAreKeptOut checks requests of a web page whose host name resolves to 127.0.0.1. The page must not be able
// to read anything. No page of another origin may make the server change anything.
func TestBrowsersAreKeptOut(t *testing.T) {
	_, service := learned(t)
	url := start(t, serve.DefaultConfig(), service)
	for _, c := range []struct {
		method, path, host, origin string
		status                     int
	}{
		{"GET", "/v1/model/offsets", "", "", 503}, {"GET", "/", "localhost:9", "", 200}, {"GET", "/", "[::1]:9", "", 200},
		{"GET", "/", "evil.example", "", 421}, {"GET", "/metrics", "127.0.0.1.evil.example:80", "", 421},
		{"POST", "/v1/predict", "", "http://evil.example", 403}, {"POST", "/v1/predict", "", "", 503},
	} {
		request := must.Get(http.NewRequest(c.method, url+c.path, strings.NewReader("{}")))(t)
		if c.host != "" {
			request.Host = c.host
		}
		if c.origin != "" {
			request.Header.Set("Origin", c.origin)
		}
		response := must.Get(http.DefaultClient.Do(request))(t)
		response.Body.Close()
		must.Equal(t, response.StatusCode, c.status, c, response.Status)
	}
}

func TestToken(t *testing.T) {
	_, service := learned(t)
	config := serve.DefaultConfig()
	config.TokenEnv = "BLANKOUT_TEST_TOKEN"
	t.Setenv(config.TokenEnv, "open sesame")
	url := start(t, config, service)
	for _, c := range []struct {
		path, authorization string
		status              int
	}{
		{"/metrics", "", 401}, {"/metrics", "Bearer ", 401}, {"/metrics", "Bearer open", 401}, {"/metrics", "open sesame", 401}, {"/nothing", "", 401},
		{"/metrics", "Bearer open sesame", 200}, {"/metrics", "bearer open sesame", 200},
		{"/", "Basic " + base64.StdEncoding.EncodeToString([]byte("me:open sesame")), 200},
		{"/", "Basic " + base64.StdEncoding.EncodeToString([]byte("open sesame:")), 401},
		{"/healthz", "", 200}, {"/readyz", "", 503},
	} {
		status, text, header := call(t, "GET", url+c.path, "", "Authorization", c.authorization)
		must.True(t, status == c.status && (status == 401) == (len(header.Values("WWW-Authenticate")) == 2) && (status != 401 || !strings.Contains(text, "open")), "%+v: %d %s", c, status, text)
	}
}

// TestAccess checks that an address that other machines can reach needs a token and TLS, or the user's confirmation.
func TestAccess(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir)
	token := filepath.Join(dir, "token")
	must.Do(t, os.WriteFile(token, []byte("open sesame\n"), 0o600))
	for _, c := range []struct {
		name, token, cert, key string
		want                   string
	}{
		{"nothing", "", "", "", "lacks a token (in the variable BLANKOUT_TEST_NO_TOKEN or in token_file; client_ca_file instead) and TLS (cert_file, key_file)"},
		{"no TLS", token, "", "", "lacks TLS"}, {"no token", "", cert, key, "lacks a token"},
		{"half", token, cert, "", "TLS needs both"}, {"no file", token + "x", cert, key, "token_file"}, {"both", token, cert, key, ""},
	} {
		config := serve.DefaultConfig()
		config.Address, config.TokenEnv = "0.0.0.0:0", "BLANKOUT_TEST_NO_TOKEN"
		config.TokenFile, config.CertFile, config.KeyFile = c.token, c.cert, c.key
		err := config.Check()
		must.True(t, (err == nil) == (c.want == "") && (err == nil || strings.Contains(err.Error(), c.want)), "%s: %v", c.name, err)
	}

	_, service := learned(t)
	config := serve.DefaultConfig()
	config.CertFile, config.KeyFile = cert, key
	url := start(t, config, service)
	pool := x509.NewCertPool()
	chain, err := os.ReadFile(cert)
	must.Require(t, err == nil && pool.AppendCertsFromPEM(chain), "%v", err)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get(url + "/healthz")
	must.Require(t, err == nil && strings.HasPrefix(url, "https://"), "%v %v", url, err)
	response.Body.Close()
}

// certificate writes a file with a certificate for 127.0.0.1, followed by the certificate of its authority. It writes
// the key to another file.
func certificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	authority := streamtest.NewAuthority(t)
	public, secret := authority.Sign(t, "server")
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	must.Do(t, os.WriteFile(cert, append(public, authority.PEM...), 0o600))
	must.Do(t, os.WriteFile(key, secret, 0o600))
	return cert, key
}

// FuzzRequests sends arbitrary requests to the server, with a service for each format of events. The server must never
// fail with an internal error. Every error must be JSON with the fields what and where. No response may contain a file
// that is not part of the page.
func FuzzRequests(f *testing.F) {
	for _, seed := range [][4]string{
		{"POST", "/v1/predict", `{"word":"yes1"}`, "json"}, {"POST", "/v1/predict?explain=3", `[{"x":1},{"x":null},3]`, "json"}, {"POST", "/v1/predict", "1 2:3\n{", "svmlight"},
		{"POST", "/v1/predict?explain=100", "1 |a x:1 y |b\n|", "vw"}, {"POST", "/v1/predict", "yes,1,2\n\"", "csv"},
		{"GET", "/v1/model?weights=1", "", "application/json"}, {"GET", "/v1/model/../../etc/passwd", "", ""}, {"GET", "/v1/model/offsets?x=%zz", "", ""}, {"DELETE", "/", "", ""}, {"GET", "//", "", ""},
		{"GET", "/v1/reports/latest", "", ""}, {"GET", "/v1/reports/..%2f..%2fsecret", "", ""}, {"GET", "/v1/reports/secret.json", "", ""}, {"POST", "/v1/validate", "", ""}, {"GET", "/metrics", "", "gzip"},
		{"GET", "/", "", "bytes=9-1"}, {"GET", "/page/page.js", "", "bytes=0-0,x"},
		{"GET", "/openapi.json", "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	runner, service := learned(f)
	must.Do(f, runner.Run(f.Context()))
	const canary = "MF2XI2DFNYQGC3TE"
	dir := f.TempDir()
	for _, name := range []string{"secret", "secret.json", "reports/secret"} {
		path := filepath.Join(dir, name)
		must.Do(f, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(canary), 0o644)))
	}
	f.Chdir(dir)
	service.Reports, _ = must.Get2(serve.OpenReports("reports", 3))(f)
	service.Validate = func() error { return errors.New("the events cannot be read again") }
	handlers := map[string]http.Handler{"": serve.Handler(serve.DefaultConfig(), service)}
	for _, format := range []string{"svmlight", "vw", "csv"} {
		recordConfig := written()
		recordConfig.Format = format
		if format == "csv" {
			recordConfig.Columns = []string{"label", "word", "x"}
		}
		other := service
		other.Model = latest(runner.Published, recordConfig)
		handlers[format] = serve.Handler(serve.DefaultConfig(), other)
	}
	f.Fuzz(func(t *testing.T, method, path, body, header string) {
		request, err := http.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
		if err != nil || strings.HasPrefix(request.URL.Path, "/v1/events") { // the response to /v1/events does not end
			return
		}
		request.Host = "127.0.0.1"
		for _, name := range []string{"If-None-Match", "Accept", "Accept-Encoding", "Range", "Authorization", "Content-Type"} {
			request.Header.Set(name, header)
		}
		w := httptest.NewRecorder()
		handler := handlers[header]
		if handler == nil {
			handler = handlers[""]
		}
		handler.ServeHTTP(w, request)
		must.True(t, w.Code < 500, "%s %s: %d %s", method, path, w.Code, w.Body)
		wrong := asDocumented(request, w.Code, w.Result().Header, w.Body.Bytes())
		must.True(t, wrong == nil, "%s %s: %d %.300q: %v", method, path, w.Code, w.Body, wrong)
		must.True(t, !strings.Contains(w.Body.String(), canary), "%s %s: %d answers with a file", method, path, w.Code)
		if w.Code >= 400 && method != "HEAD" {
			var e struct{ Error, Where *string }
			must.True(t, json.Unmarshal(w.Body.Bytes(), &e) == nil && e.Error != nil && e.Where != nil, "%s %s: %d %q", method, path, w.Code, w.Body)
		}
	})
}

// TestLimits checks clients that send their headers or body too slowly, or send too much. Such a client must be
// disconnected and must not delay other clients.
func TestLimits(t *testing.T) {
	t.Parallel() // mostly waiting
	runner, service := learned(t)
	must.Do(t, runner.Run(t.Context()))
	url := start(t, serve.DefaultConfig(), service)
	status, _, _ := call(t, "GET", url+"/healthz", "", "X-Long", strings.Repeat("x", 1<<17))
	must.Equal(t, status, http.StatusRequestHeaderFieldsTooLarge, "128 KB of headers")
	answers(t, http.StatusRequestEntityTooLarge, "a request may contain 65536", "POST", url+"/v1/predict", "["+strings.Repeat("1,", 70_000)+"1]")
	slow := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
	defer slow.Close()
	fmt.Fprintf(slow, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n") // the client sends nothing more
	// would block forever if the server waited too
	must.Do(t, must.Err(io.ReadAll(slow)), "headers that do not end")
}

// TestEvents checks that GET /v1/events sends the history of the run and then the current state. The request must not
// delay a stop of the server.
func TestEvents(t *testing.T) {
	runner, service := learned(t)
	server := must.Get(serve.Start(listening(), service, quiet()))(t)
	must.Do(t, runner.Run(t.Context()))
	response := must.Get(http.Get(server.URL() + "/v1/events"))(t)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	data := map[string]string{}
	for kind := ""; data["status"] == "" && lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			kind = name
		} else if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			data[kind] = text
		}
	}
	var status struct {
		Events, Refused uint64
		Forecast        online.Forecast
		Experts         []model.Expert
		Partitions      []struct{ Records uint64 }
		Model           struct{ Version uint64 }
		Classes         []struct {
			Name   string
			Events uint64
		}
		Refused_by map[string]uint64
	}
	err := json.Unmarshal([]byte(data["status"]), &status)
	must.Require(t, err == nil && strings.HasPrefix(data["history"], "["), "%v: %v", data, err)
	must.True(t, status.Events == 400 && status.Refused == 4 && status.Refused_by["syntax"] == 4 && len(status.Forecast.Declared) == 10 && len(status.Forecast.Silent) == 10 && len(status.Experts) == 7 && len(status.Partitions) == 1 &&
		len(status.Classes) == 2 && status.Classes[1].Events == 200 && status.Model.Version == runner.Published().Version, "%+v", status)
	must.Do(t, server.Close(t.Context()))
	for lines.Scan() {
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestReadersDoNotDisturb runs readers and the learner at full speed, for the race detector.
func TestReadersDoNotDisturb(t *testing.T) {
	runner, service := learned(t)
	runner.Config.PublishEvents = 1
	url := start(t, serve.DefaultConfig(), service)
	var readers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for _, path := range []string{"/metrics", "/v1/model", "/v1/predict", "/readyz"} {
		readers.Go(func() {
			for ctx.Err() == nil {
				if path == "/v1/predict" {
					call(t, "POST", url+path, `{"word":"yes1","never":"seen"}`)
				} else {
					call(t, "GET", url+path, "")
				}
			}
		})
	}
	err := runner.Run(t.Context())
	stop()
	readers.Wait()
	must.True(t, err == nil, "%v", err)
}

func TestCheck(t *testing.T) {
	for address, ok := range map[string]bool{
		"": true, "127.0.0.1:0": true, "localhost:80": true, "[::1]:80": true,
		":80": false, "0.0.0.0:80": false, "example.com:80": false, "127.0.0.1": false, "127.0.0.1:x": false, "127.0.0.1:70000": false,
	} {
		c := serve.DefaultConfig()
		c.Address = address
		err := c.Check()
		must.True(t, (err == nil) == ok, "%q: %v", address, err)
		c.Public = true
		err = c.Check()
		must.True(t, err == nil || !slices.Contains([]string{":80", "0.0.0.0:80", "example.com:80"}, address), "%q in public: %v", address, err)
	}
}

func ExampleStart() {
	config := serve.DefaultConfig()
	config.Address = "127.0.0.1:0"
	var runner run.Runner // a real Runner has a Learner and a Source
	server, err := serve.Start(config, serve.Service{Status: runner.Status, Model: latest(runner.Published, record.DefaultConfig())}, slog.New(slog.DiscardHandler))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close(context.Background())
	response, err := http.Get(server.URL() + "/readyz")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	fmt.Print(response.Status, " ")
	io.Copy(os.Stdout, response.Body)
	// Output: 503 Service Unavailable {"error":"not ready: not started","where":"/readyz"}
}

// validates makes a runner validate its model on the events of its file. It makes a service list the reports.
func validates(t *testing.T, r *run.Runner, s *serve.Service, c online.Config, records record.Config) {
	t.Helper()
	s.Reports, _ = must.Get2(serve.OpenReports("", 10))(t)
	r.Report = s.Reports.Add
	r.Validator = &validate.Validator{Config: validate.DefaultConfig(), Learner: c,
		Open: func(_ context.Context, s *event.Schema, from event.Offsets) (event.Source, error) {
			return stream.OpenFile(from[0].Topic, records, s)
		}}
}

// validatesTwice makes a run of 404 records validate after 200 and after 400 records: the second half arrives only after
// the first report. A line of validations needs two.
func validatesTwice(r *run.Runner, s *serve.Service) {
	r.Validator.Config.Events = 200
	r.Source = &halves{Source: r.Source, first: func() bool { return len(s.Reports.List()) > 0 }}
}

// halves is a Source whose first batch it returns in two parts. The second part waits until first is true.
type halves struct {
	event.Source
	first func() bool
	all   event.Batch
	rest  []event.Example
}

func (h *halves) Next(ctx context.Context, b *event.Batch) error {
	if h.rest != nil {
		for !h.first() && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		*b = h.all
		b.Examples, h.rest = h.rest, nil
		return ctx.Err()
	}
	if err := h.Source.Next(ctx, &h.all); err != nil {
		return err
	}
	*b = h.all
	if half := len(h.all.Examples) / 2; half > 0 && !h.first() {
		b.Examples, h.rest = h.all.Examples[:half], h.all.Examples[half:]
		b.Next = h.rest[0].Offset
	}
	return nil
}

// listening returns the default configuration with a free port.
func listening() serve.Config {
	c := serve.DefaultConfig()
	c.Address = "127.0.0.1:0"
	return c
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// latest returns a function that returns the newest model of the leader.
func latest(published func() *run.Published, c record.Config) func() *served.Model {
	models := newest(published, c)
	return func() *served.Model { return models("") }
}

// newest is serve.Newest for learners with the same record settings.
func newest(published func() *run.Published, c record.Config) func(learner string) *served.Model {
	return serve.Newest(published, func() *record.Config { return &c }, func(_ string, c record.Config) record.Config { return c })
}

// TestReadyWithoutLearner checks that a service that only predicts is ready as soon as it has a model.
func TestReadyWithoutLearner(t *testing.T) {
	var m *served.Model
	url := start(t, serve.DefaultConfig(), serve.Service{Model: func() *served.Model { return m }})
	answers(t, 503, "not ready: no model has been published yet", "GET", url+"/readyz", "")
	m = served.New(model.NewLinear(event.NewSchema(8, nil, 2), "logistic", "none", [][]float64{{1}}, []float64{0}), written())
	answers(t, 200, "", "GET", url+"/readyz", "")
}

// TestFormatIsReported serves a model without a configured record format. The server must report the format of its events.
func TestFormatIsReported(t *testing.T) {
	runner, service := learned(t)
	must.Do(t, runner.Run(t.Context()))
	model := service.Model
	format := ""
	service.Model = func() *served.Model { m := *model(); m.Record.Format = format; return &m }
	url := start(t, serve.DefaultConfig(), service)
	for set, named := range map[string]string{"": "json", "svmlight": "svmlight"} {
		format = set
		answers(t, 200, `"format":"`+named+`"`, "GET", url+"/v1/newest", "")
	}
}

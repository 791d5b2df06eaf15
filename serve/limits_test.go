package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/internal/streamtest"
	"blankout/serve"
	"blankout/stream/record"
)

// following returns a Service that follows a model with many classes and dense columns. So predicting one small event
// is expensive.
func following(t testing.TB, classes, columns int) serve.Service {
	t.Helper()
	names := must.List(classes, func(i int) string { return fmt.Sprintf("class %d", i) })
	schema := event.NewSchema(20, names, classes)
	schema.NumericIndices = true
	weights := make([][]float64, schema.Outputs())
	for k := range weights {
		weights[k] = make([]float64, columns)
		for d := range weights[k] {
			weights[k][d] = float64(d%7-3) / float64(k+1)
		}
	}
	model := model.NewLinear(schema, "logistic", "none", weights, make([]float64, len(weights)))
	for d := range columns {
		model.Scaler.Dense = append(model.Scaler.Dense, uint32(d))
	}
	recordConfig := record.DefaultConfig()
	recordConfig.Format = "json"
	m := served.New(model, recordConfig)
	m.Version, m.At = 1, time.Now()
	return serve.Service{Model: func() *served.Model { return m }}
}

// recorder is a ResponseWriter that keeps the first part of a response and counts the bytes of the rest. If look is not
// nil, it is called before every write.
type recorder struct {
	header http.Header
	status int
	bytes  int
	first  bytes.Buffer
	look   func()
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) { r.status = status }

func (r *recorder) Write(p []byte) (int, error) {
	if r.look != nil {
		r.look()
	}
	r.bytes += len(p)
	r.first.Write(p[:min(len(p), max(0, 1000-r.first.Len()))])
	return len(p), nil
}

// ask sends a prediction request directly to a handler. It returns the number of allocated bytes, and whether the
// response was aborted.
func ask(h http.Handler, ctx context.Context, query, body string, w *recorder) (allocated uint64, cut bool) {
	w.header, w.status = http.Header{}, http.StatusOK
	request := httptest.NewRequestWithContext(ctx, "POST", "http://127.0.0.1/v1/predict"+query, strings.NewReader(body))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	defer func() {
		runtime.ReadMemStats(&after)
		allocated = after.TotalAlloc - before.TotalAlloc
		if err := recover(); err != nil {
			if err != http.ErrAbortHandler {
				panic(err)
			}
			cut = true
		}
	}()
	h.ServeHTTP(w, request)
	return
}

// patient returns a server configuration with long timeouts, for test machines that may be busy.
func patient() serve.Config {
	c := serve.DefaultConfig()
	c.AnswerTimeout, c.ClientTimeout = time.Hour, time.Hour
	return c
}

// TestPredictionRequestsAreLimited checks that the work and the response for a small body are limited. The limits are
// on the number of events, the classes of each event, and the listed features.
func TestPredictionRequestsAreLimited(t *testing.T) {
	longtest.NotRaced(t)
	for _, c := range []struct {
		name, query, body string
		classes           int
		want              string // part of the error; "" means success
	}{
		{"four million events", "", strings.Repeat("{}", 4<<20), 2, "a request may contain 65536"},
		{"in an array", "", "[" + strings.Repeat("{},", 2<<20) + "{}]", 2, "a request may contain 65536"},
		{"in lines", "", strings.Repeat("1\n", 4<<20), 2, "a request may contain 65536"},
		{"128 kB and fifty classes", "", strings.Repeat("{}", 1<<16), 50, "a request may contain 20971 "},
		{"and explanations", "?explain=100", strings.Repeat("{}", 1<<16), 50, "a request may contain 6990 "},
		{"8 MB and explanations", "?explain=100", strings.Repeat(`{"label":1}`, 8<<20/11), 2, "a request may contain 10280 "},
		{"as many as are allowed", "", strings.Repeat("{}", 65536), 2, ""},
		{"with fifty classes", "", strings.Repeat("{}", 20971), 50, ""},
		{"with explanations", "?explain=100", strings.Repeat(`{"label":1}`, 10280), 2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := serve.Handler(patient(), following(t, c.classes, 120))
			var w recorder
			allocated, cut := ask(h, t.Context(), c.query, c.body, &w)
			must.True(t, !cut && (w.status == 200) == (c.want == "") && strings.Contains(w.first.String(), c.want), "%d %s", w.status, w.first.String())
			// io.ReadAll allocates five times the size of the body as its buffer grows. Rejecting the request must not
			// need much more memory.
			most := uint64(6*len(c.body) + 8<<20)
			must.True(t, w.status != 413 || allocated <= most, "%d bytes were allocated to refuse %d: more than %d", allocated, len(c.body), most)
		})
	}
}

// TestSmallResponsesTakeLittleMemory checks that a request with one small event allocates little memory. At thousands
// of requests per second, the allocated memory determines how often garbage collection delays other requests.
func TestSmallResponsesTakeLittleMemory(t *testing.T) {
	h := serve.Handler(patient(), following(t, 2, 20))
	ask(h, t.Context(), "", "{}", &recorder{}) // creates the decoder in advance
	least := uint64(1 << 20)
	for range 5 { // several attempts, because other goroutines may allocate too
		allocated, _ := ask(h, t.Context(), "", "{}", &recorder{})
		least = min(least, allocated)
	}
	must.True(t, least <= 16<<10, "%d bytes are allocated to answer one event", least)
}

// TestResponsesAreStreamed checks that a response is sent while it is being written, so that the whole response is
// never in memory.
func TestResponsesAreStreamed(t *testing.T) {
	longtest.NotRaced(t)
	h := serve.Handler(patient(), following(t, 50, 20))
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var most uint64
	var writes int
	w := recorder{look: func() {
		if writes++; writes%32 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
	}}
	body := strings.Repeat("{}", 20_000)
	_, cut := ask(h, t.Context(), "", body, &w)
	must.Require(t, !cut && w.status == 200 && w.bytes >= 15<<20 && writes >= 100, "%d in %d writes: %d %s", w.bytes, writes, w.status, w.first.String())
	must.True(t, most <= before.HeapAlloc+4<<20, "%d bytes are in use while %d are being written; %d were before", most, w.bytes, before.HeapAlloc)
}

// TestDisconnectEndsPrediction checks that a prediction request stops when its client disconnects.
func TestDisconnectEndsPrediction(t *testing.T) {
	h := serve.Handler(patient(), following(t, 50, 20))
	ctx, leave := context.WithCancel(t.Context())
	w := recorder{look: leave}
	_, cut := ask(h, ctx, "", strings.Repeat("{}", 20_000), &w)
	must.True(t, w.bytes <= 1<<17 && cut, "%d bytes were written, cut off: %v", w.bytes, cut)
	_, cut = ask(h, ctx, "", "{}", &recorder{})
	must.True(t, !cut, "nobody is there, nothing had been written, and it was cut off")
}

// unread returns a connection that has sent a request and does not read the response.
func unread(t *testing.T, url, request, body string) net.Conn {
	t.Helper()
	c := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
	t.Cleanup(func() { c.Close() })
	c.(*net.TCPConn).SetReadBuffer(4096)
	must.Do(t, must.Err(fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", request, len(body), body)))
	return c
}

func metric(t *testing.T, url, name string) string {
	t.Helper()
	_, text, _ := call(t, "GET", url+"/metrics", "")
	_, text, _ = strings.Cut(text, "\n"+name+" ")
	value, _, _ := strings.Cut(text, "\n")
	return value
}

// TestUnreadPredictions sends prediction requests whose responses no client reads. The requests must release their
// places.
func TestUnreadPredictions(t *testing.T) {
	t.Parallel() // mostly waiting
	config := serve.DefaultConfig()
	config.MaxPredicting = 2
	config.ClientTimeout = time.Second / 2
	url := start(t, config, following(t, 50, 2000))
	for range config.MaxPredicting {
		unread(t, url, "POST /v1/predict", strings.Repeat("{}", 20_000))
	}
	for metric(t, url, "blankout_predict_requests_active") != "2" {
		time.Sleep(10 * time.Millisecond)
	}
	for metric(t, url, "blankout_predict_requests_active") != "0" { // if it never becomes 0, the test times out
		time.Sleep(50 * time.Millisecond)
	}
	must.Equal(t, metric(t, url, `blankout_predict_requests_total{outcome="failed"}`), "2", "answers failed")
	answers(t, 200, "", "POST", url+"/v1/predict", "{}")
}

// TestUnreadModels checks that only few unread model responses are in memory, and only for a short time.
func TestUnreadModels(t *testing.T) {
	t.Parallel() // mostly waiting
	config := serve.DefaultConfig()
	config.ClientTimeout = 5 * time.Second / 2
	url := start(t, config, following(t, 50, 20_000)) // a model of about 16 MB
	for range 4 {
		unread(t, url, "GET /v1/model", "")
	}
	for metric(t, url, "blankout_model_requests_active") != "4" {
		time.Sleep(time.Millisecond)
	}
	status, text, header := call(t, "GET", url+"/v1/model", "")
	must.True(t, status == 503 && header.Get("Retry-After") != "", "a fifth at a time: %d %.100s", status, text)
	answers(t, 200, "", "GET", url+"/v1/model", "", "Accept", "application/json")
	for metric(t, url, "blankout_model_requests_active") != "0" {
		time.Sleep(10 * time.Millisecond)
	}
	must.Equal(t, metric(t, url, `blankout_model_requests_total{outcome="failed"}`), "4", "failed")
	m, err := served.Open(t.Context(), url, served.Options{})
	must.True(t, err == nil && m.Model.(*model.Linear).Rows.Len() >= 10_000, "%+v, %v", m, err)
}

// slowly is a client that receives each part of a response after a delay. It receives nothing after the write deadline.
type slowly struct {
	recorder
	pause    time.Duration
	deadline time.Time
}

func (s *slowly) SetWriteDeadline(t time.Time) error {
	s.deadline = t
	return nil
}

func (s *slowly) Write(p []byte) (int, error) {
	if left := time.Until(s.deadline); left < s.pause {
		time.Sleep(left)
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(s.pause)
	return s.recorder.Write(p)
}

// TestSlowClientIsCutOff checks that a client that delays a response is disconnected. A response with predictions may
// wait ten seconds in total. A client that downloads a model must be disconnected after it has been too slow for ten
// seconds.
func TestSlowClientIsCutOff(t *testing.T) {
	for _, c := range []struct {
		name      string
		perSecond int
		pause     time.Duration
		taken     int // number of 64 KiB parts received, of a hundred
	}{
		{"predictions, taken at once", 0, 0, 100},
		{"predictions, in ten seconds", 0, 100 * time.Millisecond, 100},
		{"predictions, too slowly", 0, time.Second, 10},
		{"predictions, not at all", 0, time.Hour, 0},
		{"a model, in 95 seconds", 1 << 16, 950 * time.Millisecond, 100},
		{"a model, too slowly", 1 << 16, 3 * time.Second, 4},
		{"a model, not at all", 1 << 16, time.Hour, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := &slowly{pause: c.pause}
				_, err := serve.NewTaker(client, 10*time.Second, c.perSecond).Write(make([]byte, 100<<16))
				must.True(t, client.bytes == c.taken<<16 && (err == nil) == (c.taken == 100), "%d bytes were taken, %v", client.bytes, err)
			})
		})
	}
}

// TestStopDuringDownload stops the server while a client does not read its response. The client must be disconnected,
// and the stop must return no error.
func TestStopDuringDownload(t *testing.T) {
	server := must.Get(serve.Start(listening(), following(t, 50, 20_000), quiet()))(t)
	c := unread(t, server.URL(), "GET /v1/model", "")
	must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	must.Do(t, server.Close(ctx))
}

// TestContentEncoding checks that compressed request bodies are distinguished from uncompressed text.
func TestContentEncoding(t *testing.T) {
	url := start(t, serve.DefaultConfig(), following(t, 2, 10))
	for coding, want := range map[string]int{"gzip": 415, "zstd": 415, "gzip, identity": 415, "identity": 200, "": 200} {
		status, text, header := call(t, "POST", url+"/v1/predict", "{}", "Content-Encoding", coding)
		must.True(t, status == want && (status == 415) == (header.Get("Accept-Encoding") == "identity"), "%q: %d %s", coding, status, text)
	}
}

// TestRequestMemory checks that a prediction request never takes more memory than twenty times its allowed size, as
// docs/reliability.md promises.
func TestRequestMemory(t *testing.T) {
	longtest.NotRaced(t)
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	var wide strings.Builder
	for i := 0; wide.Len() < 4<<20; i++ {
		fmt.Fprintf(&wide, `,"%x":1`, i)
	}
	for name, body := range map[string]string{
		"many keys": "{" + wide.String()[1:] + "}", "one long value": `{"a":"` + strings.Repeat("x ", 1<<19) + `"}`,
		"many events": strings.Repeat(`{"a":"`+strings.Repeat("xy ", 50)+`"}`, 7_000),
	} {
		h := serve.Handler(patient(), following(t, 2, 10))
		var before, now runtime.MemStats
		runtime.GC()
		runtime.GC() // the second collection empties the pools
		runtime.ReadMemStats(&before)
		ctx, done := context.WithCancel(t.Context())
		var looking sync.WaitGroup
		var most uint64
		looking.Go(func() {
			for ctx.Err() == nil {
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc)
				time.Sleep(time.Millisecond)
			}
		})
		var w recorder
		_, cut := ask(h, t.Context(), "?explain=100", body, &w)
		done()
		looking.Wait()
		taken := max(most, before.HeapAlloc) - before.HeapAlloc
		must.True(t, !cut && w.status == 400 && taken <= uint64(20*len(body)), "%s: %d bytes for %d: %d %.200s", name, taken, len(body), w.status, w.first.String())
	}
}

// TestConnections checks that idle connections do not block other connections. The idle connections were silent from
// the start, or after a request. A request on an open connection must be answered.
func TestConnections(t *testing.T) {
	config := serve.DefaultConfig()
	config.MaxConnections = 8
	url := start(t, config, following(t, 2, 10))
	response := must.Get(http.Get(url + "/v1/events"))(t) // this response stays in progress
	defer response.Body.Close()
	for i := range 40 {
		c := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
		defer c.Close()
		if i%2 == 0 {
			must.Get(fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))(t)
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			must.Require(t, err == nil && answer.StatusCode == 200, "connection %d: %v", i, err)
		}
	}
	answers(t, 200, "", "GET", url+"/healthz", "")
	must.Equal(t, metric(t, url, "blankout_http_connections"), "8", "connections are open")
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	must.True(t, err == nil && strings.HasPrefix(line, "event: "), "the oldest connection: %q, %v", line, err)
}

// TestBusyConnections repeats TestConnections over TLS. If all connections are busy, a new connection must wait until
// the first is finished. A waiting connection must not delay a stop of the server.
func TestBusyConnections(t *testing.T) {
	config := serve.DefaultConfig()
	config.MaxConnections = 2
	config.CertFile, config.KeyFile = certificate(t, t.TempDir())
	url := start(t, config, following(t, 2, 10))
	client := func() *http.Client {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ExpectContinueTimeout: time.Minute}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	var bodies []*io.PipeWriter
	var asking sync.WaitGroup
	ask := func(client *http.Client) {
		reader, writer := io.Pipe()
		bodies = append(bodies, writer)
		request := must.Get(http.NewRequest("POST", url+"/v1/predict", reader))(t)
		request.Header.Set("Expect", "100-continue")
		asking.Go(func() {
			response, err := client.Do(request)
			if err != nil || response.StatusCode != 200 {
				t.Errorf("%+v, %v", response, err)
				return
			}
			response.Body.Close()
		})
		// returns when the server has read it
		must.Do(t, must.Err(io.WriteString(writer, "{}")))
	}
	for range 3 {
		idle := client()
		response := must.Get(idle.Get(url + "/healthz"))(t)
		response.Body.Close()
	}
	ask(client())
	ask(client())
	waits := make(chan error, 1)
	go func() {
		response, err := client().Get(url + "/healthz")
		if err == nil {
			err = response.Body.Close()
		}
		waits <- err
	}()
	bodies[0].Close()
	must.Do(t, <-waits)
	bodies[1].Close()
	asking.Wait()
}

// TestConnectionLimitByDescriptors checks that at most a quarter of the file descriptors is used for connections.
func TestConnectionLimitByDescriptors(t *testing.T) {
	for descriptors, want := range map[uint64]int{0: 1024, 3: 1024, 64: 16, 4095: 1023, 4096: 1024, 1 << 63: 1024} {
		must.Equal(t, serve.Bounded(1024, descriptors), want, "connections for", descriptors, "descriptors")
	}
}

// TestHosts checks that a server without a token only answers requests for its own host names. Otherwise a web page
// whose host name resolves to the server could read from the server and start validations.
func TestHosts(t *testing.T) {
	validated := 0
	service := following(t, 2, 10)
	service.Validate = func() error { validated++; return nil }
	for _, c := range []struct {
		address string
		public  bool
		hosts   []string
		host    string
		want    int
	}{
		{"127.0.0.1:8642", false, nil, "127.0.0.1:8642", 202},
		{"127.0.0.1:8642", false, nil, "evil.example", 421},
		{"127.0.0.1:8642", false, nil, "192.168.1.5:8642", 421},
		{"127.0.0.1:8642", true, nil, "evil.example:8642", 421},
		{"0.0.0.0:8642", true, nil, "evil.example:8642", 421},
		{"0.0.0.0:8642", true, nil, "192.168.1.5:8642", 202},
		{"0.0.0.0:8642", true, nil, "[fe80::1]:8642", 202},
		{"0.0.0.0:8642", true, nil, "localhost:8642", 202},
		{":8642", true, nil, "learner", 421},
		{":8642", true, []string{"learner"}, "Learner:1", 202},
		{":8642", true, []string{"learner"}, "learner.evil.example", 421},
		{":8642", true, []string{"learner"}, "", 421},
		{":8642", true, []string{"*"}, "any.example", 202},
	} {
		config := serve.DefaultConfig()
		config.Address, config.Public, config.Hosts = c.address, c.public, c.hosts
		must.Do(t, config.Check())
		request := httptest.NewRequest("POST", "/v1/validate", nil)
		request.Host = c.host
		w := httptest.NewRecorder()
		before := validated
		serve.Handler(config, service).ServeHTTP(w, request)
		must.True(t, w.Code == c.want && (validated > before) == (c.want == 202), "%+v: %d %s", c, w.Code, w.Body)
	}
	// A client with a certificate or a token may use any host name for the server.
	for ca, token := range map[string]string{"authority.pem": "", "": "open sesame"} {
		config := serve.DefaultConfig()
		config.ClientCAFile = ca
		request := httptest.NewRequest("POST", "/v1/validate", nil)
		request.Host = "evil.example"
		request.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		serve.Guarded(config, token, service).ServeHTTP(w, request)
		must.True(t, w.Code == 202, "%q, %q: %d %s", ca, token, w.Code, w.Body)
	}
	for _, host := range []string{"http://learner", "learner:80", "[::1]", "a b"} {
		config := serve.DefaultConfig()
		config.Hosts = []string{host}
		err := config.Check()
		must.True(t, err != nil && strings.HasPrefix(err.Error(), "hosts: "), "%q: %v", host, err)
	}
}

// TestPoorTokens checks that tokens are rejected if they are easy to guess or impossible to send. The error must not
// contain the token.
func TestPoorTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for token, want := range map[string]string{
		"x": "fewer than 8", "        ": "fewer than 8", "1234567\n": "fewer than 8", "   1234567   ": "fewer than 8",
		" 12345678": "space", "1234\t5678": "control character", "1234\n5678": "control character", "12345678\n": "", "päßwörter": "", "open sesame": "",
	} {
		must.Do(t, os.WriteFile(file, []byte(token), 0o600))
		for _, from := range []string{"token_file", "token"} {
			config := serve.DefaultConfig()
			config.TokenEnv = "BLANKOUT_TEST_TOKEN"
			if from == "token_file" {
				config.TokenFile = file
			} else {
				t.Setenv(config.TokenEnv, strings.TrimRight(token, "\n"))
			}
			err := config.Check()
			text := strings.ReplaceAll(fmt.Sprint(err), file, "FILE") // the file's random name may contain "1234"
			must.True(t, (err == nil) == (want == "") && (err == nil || strings.HasPrefix(text, from+": ") && strings.Contains(text, want) && !strings.Contains(text, "1234")), "%s %q: %v", from, token, err)
		}
	}
}

// TestClientCertificates checks that with client_ca_file only clients with a certificate of that authority are
// accepted. These clients must need no token.
func TestClientCertificates(t *testing.T) {
	dir := t.TempDir()
	config := serve.DefaultConfig()
	config.TokenEnv = "BLANKOUT_TEST_NO_TOKEN"
	config.CertFile, config.KeyFile = certificate(t, dir)
	authority := filepath.Join(dir, "clients.pem")
	clients := streamtest.NewAuthority(t)
	must.Do(t, os.WriteFile(authority, clients.PEM, 0o600))
	config.ClientCAFile = authority
	config.Address = "0.0.0.0:0"
	must.Do(t, config.Check(), "instead of a token")
	url := start(t, config, following(t, 2, 10))
	get := func(pairs ...tls.Certificate) (int, error) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: pairs}}
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport}).Get(url + "/v1/model")
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	status, err := get(clients.Pair(t, "client"))
	must.True(t, status == 200 && err == nil, "with a certificate: %d, %v", status, err)
	for name, pairs := range map[string][]tls.Certificate{"no certificate": nil, "another authority's": {streamtest.NewAuthority(t).Pair(t, "client")}} {
		status, err := get(pairs...)
		must.True(t, err != nil, "%s: %d", name, status)
	}
	config.ClientCAFile = config.KeyFile
	must.ErrorContains(t, must.Err(serve.Start(config, serve.Service{}, nil)), "client_ca_file", "a file without a certificate")
	config.CertFile, config.KeyFile, config.Address = "", "", "127.0.0.1:0"
	err = config.Check()
	must.True(t, err != nil && strings.HasPrefix(err.Error(), "client_ca_file: "), "without TLS: %v", err)
}

package serve_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"blankout/internal/must"
	"blankout/serve"
	"blankout/stream/inbox"
	"blankout/stream/record"
)

// TestLearnStatuses checks the status of the response if the log cannot accept events. The client decides by the status
// whether to retry.
func TestLearnStatuses(t *testing.T) {
	_, service := learned(t)
	for name, c := range map[string]struct {
		options inbox.Options
		closed  bool
		none    bool
		status  int
		again   string // value of Retry-After
		want    string
	}{
		"behind":   {options: inbox.Options{Most: 10}, status: http.StatusTooManyRequests, again: "1", want: "learning is behind"},
		"full":     {status: http.StatusInsufficientStorage, want: "the disk is full"},
		"stopping": {closed: true, status: http.StatusServiceUnavailable, again: "1", want: "stopping"},
		"starting": {none: true, status: http.StatusServiceUnavailable, again: "1", want: "starting"},
	} {
		l := must.Get(inbox.Open(t.TempDir(), c.options))(t)
		if name == "behind" { // the first request is accepted at any size
			must.Get(l.Append(context.Background(), nil, [][]byte{[]byte(`{"x":1}`)}))(t)
		}
		if c.closed {
			must.Do(t, l.Close())
		} else {
			t.Cleanup(func() { _ = l.Close() })
		}
		taken := must.Get(inbox.NewLogAcceptor(l, record.DefaultConfig(), record.DefaultConfig().Schema()))(t)
		service.Learn = func() serve.Acceptor {
			switch {
			case c.none:
				return nil
			case name == "full":
				return fullDisk{}
			}
			return taken
		}
		url := start(t, serve.DefaultConfig(), service)
		status, body, header := call(t, "POST", url+"/v1/learn", `{"x":1}`)
		must.True(t, status == c.status && strings.Contains(body, c.want) && header.Get("Retry-After") == c.again, "%s: status %d, Retry-After %q, %s", name, status, header.Get("Retry-After"), body)
	}
}

// fullDisk is the Acceptor of a log on a full disk.
type fullDisk struct{}

func (fullDisk) Accept(context.Context, string, [][]byte, bool) (inbox.Accepted, error) {
	return inbox.Accepted{}, inbox.ErrDiskFull
}

// learning adds an Acceptor of a new log to a service. It returns the log.
func learning(t *testing.T, service *serve.Service) *inbox.Log {
	t.Helper()
	l := must.Get(inbox.Open(t.TempDir(), inbox.Options{}))(t)
	t.Cleanup(func() { _ = l.Close() })
	config := record.DefaultConfig()
	config.ID = "id"
	taken := must.Get(inbox.NewLogAcceptor(l, config, config.Schema()))(t)
	service.Learn = func() serve.Acceptor { return taken }
	return l
}

// TestLearnNeedsAccess checks that a server that other machines can reach does not accept events without a token or a
// client certificate, even if everybody may read.
func TestLearnNeedsAccess(t *testing.T) {
	for _, address := range []string{"0.0.0.0:8642", "[::]:8642", ":8642", "192.0.2.1:80"} {
		c := serve.DefaultConfig()
		c.Address, c.Public, c.TokenEnv = address, true, "BLANKOUT_TEST_NO_TOKEN"
		must.Do(t, c.Check())
		c.Learn = true
		must.ErrorContains(t, c.Check(), "other machines can reach", address)
		t.Setenv("BLANKOUT_TEST_TOKEN", "a long token")
		c.TokenEnv = "BLANKOUT_TEST_TOKEN"
		must.Do(t, c.Check())
		c.TokenEnv, c.Address = "BLANKOUT_TEST_NO_TOKEN", "127.0.0.1:8642"
		must.Do(t, c.Check())
	}
}

// TestLearnKeys checks the responses for keys and IDs that were used before, and for keys that are too long.
func TestLearnKeys(t *testing.T) {
	_, service := learned(t)
	l := learning(t, &service)
	url := start(t, serve.DefaultConfig(), service) + "/v1/learn"
	answers(t, 200, `{"events":1,"first":0}`, "POST", url, `{"x":1}`, "Idempotency-Key", "a")
	answers(t, 200, `"repeated":1,"again":true`, "POST", url, `{"x":1}`, "Idempotency-Key", "a")
	answers(t, 422, `"where":"Idempotency-Key"`, "POST", url, `{"x":2}`, "Idempotency-Key", "a")
	answers(t, 200, `"first":1`, "POST", url, `{"id":"i","x":1}`)
	answers(t, 200, `{"events":2,"first":2,"repeated":1}`, "POST", url, `{"id":"i","x":1}{"id":"j","x":1}`)
	answers(t, 422, `"where":"event 1"`, "POST", url, `{"id":"k","x":1}{"id":"j","x":2}`)
	answers(t, 200, `"first":3`, "POST", url, `{"x":1}`, "Idempotency-Key", strings.Repeat("k", 1024))
	answers(t, 400, "1025 bytes, the most is 1024", "POST", url, `{"x":1}`, "Idempotency-Key", strings.Repeat("k", 1025))
	must.Equal(t, l.Next(), 4, "stored events")
}

// TestLearnPredictIsLimited checks that predictions for events to learn have the limits of POST /v1/predict, and that
// nothing is stored beyond them.
func TestLearnPredictIsLimited(t *testing.T) {
	service := following(t, 100, 10)
	l := learning(t, &service)
	url := start(t, serve.DefaultConfig(), service)
	events := func(n int) string { return strings.Repeat("{\"1\":1}\n", n) }
	for _, path := range []string{"/v1/predict", "/v1/learn?predict=1"} {
		answers(t, 413, "a request may contain 10485 (65536 if each event has at most 16 numbers; here 100", "POST", url+path, events(10_486))
	}
	must.Equal(t, l.Next(), 0, "stored events")
	answers(t, 200, `"predictions":[{`, "POST", url+"/v1/learn?predict=1", events(100))
	answers(t, 200, `"first":100`, "POST", url+"/v1/learn", events(20_000))
	c := serve.DefaultConfig()
	c.AnswerTimeout = time.Nanosecond
	url = start(t, c, service)
	answers(t, 503, "no answer within 1ns", "POST", url+"/v1/learn?predict=1", events(10))
	must.Equal(t, l.Next(), 20_100, "stored events")
}

// TestUnknownParameters checks that every path refuses query parameters that it does not have.
func TestUnknownParameters(t *testing.T) {
	_, service := learned(t)
	learning(t, &service)
	url := start(t, serve.DefaultConfig(), service)
	d := must.Get(documented())(t)
	for path, methods := range d.paths {
		for method, operation := range methods {
			path := url + strings.NewReplacer("{file}", "page.js", "{id}", "1", "{model}", "blankout", "{version}", "1").Replace(path)
			request := must.Get(http.NewRequest(strings.ToUpper(method), path+"?explian=3", strings.NewReader(`{"x":1}`)))(t)
			response := must.Get(http.DefaultClient.Do(request))(t)
			body := string(must.Get(io.ReadAll(response.Body))(t))
			response.Body.Close()
			status := response.StatusCode
			must.True(t, status == 404 || status == 400 && strings.Contains(body, `unknown parameter \"explian\"`), "%s %s: %d %s", method, path, status, body)
			must.True(t, status != 404 || operation.OperationID != "learn", "%s is not served", path)
		}
	}
	answers(t, 400, "unknown parameter", "POST", url+"/v1/learn?predict=1&Labels=1", `{"x":1}`)
	answers(t, 400, "invalid URL escape", "POST", url+"/v1/predict?explain=%zz", `{"x":1}`)
	answers(t, 400, "want 1 or 0", "GET", url+"/v1/model?weights=yes", "", "Accept", "application/json")
}

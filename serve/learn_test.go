package serve_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

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
		"full":     {options: inbox.Options{MinFree: 100, Free: func() (int64, error) { return 99, nil }}, status: http.StatusInsufficientStorage, want: "nearly full"},
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
			if c.none {
				return nil
			}
			return taken
		}
		url := start(t, serve.DefaultConfig(), service)
		status, body, header := call(t, "POST", url+"/v1/learn", `{"x":1}`)
		if status != c.status || !strings.Contains(body, c.want) || header.Get("Retry-After") != c.again {
			t.Errorf("%s: status %d, Retry-After %q, %s", name, status, header.Get("Retry-After"), body)
		}
	}
}

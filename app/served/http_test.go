package served_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/stream/record"
)

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

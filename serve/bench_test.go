package serve_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"blankout/app/run"
	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/online"
	"blankout/serve"
	"blankout/stream/record"
)

// endless is a Source that repeats the same events.
type endless struct {
	schema  *event.Schema
	decoder record.Decoder
	values  [][]byte
	next    int64
}

func (s *endless) Next(ctx context.Context, b *event.Batch) error {
	const batch = 512
	if len(b.Examples) == 0 {
		b.Examples = make([]event.Example, batch)
	}
	b.Topic, b.Schema = "endless", s.schema
	for i := range b.Examples {
		if err := s.decoder.Decode(ctx, record.Record{Value: s.values[int(s.next)%len(s.values)], Offset: s.next}, &b.Examples[i]); err != nil {
			return err
		}
		s.next++
	}
	b.Next, b.HighWater = s.next, -1
	return ctx.Err()
}

// BenchmarkPredict requests predictions over loopback, one event per request, from one client and from eight concurrent
// clients. It measures without learning and while learning at full speed. It reports latencies, and requests and
// learned events per second.
func BenchmarkPredict(b *testing.B) {
	for _, learning := range []bool{false, true} {
		for _, clients := range []int{1, 8} {
			b.Run(fmt.Sprintf("learning=%v/clients=%d", learning, clients), func(b *testing.B) { benchmarkPredict(b, learning, clients) })
		}
	}
}

func benchmarkPredict(b *testing.B, learning bool, clients int) {
	recordConfig := record.DefaultConfig()
	recordConfig.Classes = []string{"no", "yes"}
	schema := recordConfig.Schema()
	decoder := must.Get(record.NewDecoder(recordConfig, schema))(b)
	source := &endless{schema: schema, decoder: decoder}
	for i := range 10_000 {
		var words strings.Builder
		for j := range 20 {
			fmt.Fprintf(&words, "w%d ", (i*i+j*j*j*7)%20_000)
		}
		source.values = append(source.values, fmt.Appendf(nil, `{"label":"%s","words":"%s","x":%d}`, []string{"no", "yes"}[i%2], words.String(), i%7))
	}
	learner := must.Get(online.New(online.DefaultConfig(), schema))(b)
	r := &run.Runner{Config: run.DefaultConfig(), Source: source, State: run.State{Learner: learner}, Schema: schema}
	r.Config.Refused = run.PolicySkip
	if !learning {
		r.Config.MaxEvents = 50_000
	}
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	if !learning {
		must.Do(b, <-done)
		done <- nil
	}
	for r.Published() == nil || r.Published().Events == 0 {
		select {
		case err := <-done:
			b.Fatalf("nothing was published: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	url := start(b, serve.DefaultConfig(), serve.Service{Status: r.Status, Model: latest(r.Published, recordConfig)})
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	asker := &http.Client{Transport: transport}
	before := r.Status().Learned
	took := make([][]time.Duration, clients)
	var asking sync.WaitGroup
	b.ResetTimer()
	began := time.Now()
	for client := range clients {
		asking.Go(func() {
			for i := client; i < b.N; i += clients {
				at := time.Now()
				response, err := asker.Post(url+"/v1/predict", "application/json", bytes.NewReader(source.values[i%len(source.values)]))
				if err != nil || response.StatusCode != 200 {
					b.Error(err)
					return
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
				took[client] = append(took[client], time.Since(at))
			}
		})
	}
	asking.Wait()
	seconds := time.Since(began).Seconds()
	b.StopTimer()
	learned := float64(r.Status().Learned-before) / seconds
	stop()
	must.Do(b, <-done)
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(len(all))/seconds, "requests/s")
	b.ReportMetric(learned, "learned/s")
}

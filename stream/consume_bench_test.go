package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"blankout/app/run"
	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/online"
	"blankout/stream/record"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// benchRecord is an event of 200 bytes.
const benchRecord = `{"label":1,"age":39,"hours_per_week":40,"capital_gain":2174.5,"workclass":"State-gov","education":"Bachelors","marital":"Never-married","sex":"Male","country":"United-States","night":false,"score":0.73}`

// nothing decodes a record into an event without features.
type nothing struct{ records int }

func (d *nothing) Decode(_ context.Context, r record.Record, e *event.Example) error {
	*e = event.Example{Label: event.Unlabeled, Weight: 1, Key: r.Key, Time: r.Time, Offset: r.Offset}
	d.records++
	return nil
}

// readBenchmark returns a fetch response with records of the given values, and a Consumer that can read it. If keys is
// true, each record has a key of its own.
func readBenchmark(t testing.TB, values [][]byte, keys bool, codec int16, decoder record.Decoder, s *event.Schema) (*Consumer, *fetcher, *fetched) {
	var response []byte
	for at := 0; at < len(values); {
		var w batchWriter
		first := at
		for ; at < len(values) && len(w.Records) < 100_000; at++ {
			var key []byte
			if keys {
				key = fmt.Appendf(nil, "key%d", at)
			}
			w.add(w.NumRecords, Message{Key: key, Value: values[at], Time: int64(at)})
		}
		response = must.Get(w.appendTo(response, kmsg.RecordBatch{FirstOffset: int64(first), Attributes: codec, ProducerID: -1}))(t)
	}
	config := DefaultConsumerConfig()
	c := &Consumer{config: config, schema: s, decoding: decoding{decoder: decoder, most: config.BatchRecords, unpack: unpacker{limit: maxUnpacked}}}
	f := &fetcher{consumer: c, topic: "t", end: -1}
	return c, f, &fetched{from: f, response: fetchResponse{records: response}}
}

// readOnce scans and reads the response once, and calls each for its events.
func readOnce(t testing.TB, c *Consumer, f *fetcher, buf *fetched, b *event.Batch, each func(e *event.Example)) {
	f.next, buf.batches, c.decoding.index = 0, buf.batches[:0], 0
	must.Get(f.scan(buf))(t)
	for c.decoding.index < len(buf.batches) {
		b.Examples = b.Examples[:0]
		next := must.Get(c.decoding.read(t.Context(), b, buf))(t)
		b.Next = next
		for i := range b.Examples {
			each(&b.Examples[i])
		}
	}
}

// BenchmarkRead reads a response of 200-byte records. It measures checksums, records, fingerprints and keys, but not
// the decoding of values.
func BenchmarkRead(b *testing.B) {
	for codec, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		b.Run(name, func(b *testing.B) {
			values := slices.Repeat([][]byte{[]byte(benchRecord)}, 5000)
			c, f, buf := readBenchmark(b, values, false, int16(codec), &nothing{}, event.NewSchema(8, nil, 2))
			var batch event.Batch
			readOnce(b, c, f, buf, &batch, func(*event.Example) {})
			b.ReportAllocs()
			for b.Loop() {
				readOnce(b, c, f, buf, &batch, func(*event.Example) {})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(values)), "ns/record")
		})
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	for _, codec := range []int16{0, 2, 4} { // gzip and lz4 allocate a reader for each batch
		values := slices.Repeat([][]byte{[]byte(benchRecord)}, 5000)
		c, f, buf := readBenchmark(t, values, true, codec, &nothing{}, event.NewSchema(8, nil, 2))
		var b event.Batch
		readOnce(t, c, f, buf, &b, func(*event.Example) {})
		n := testing.AllocsPerRun(5, func() { readOnce(t, c, f, buf, &b, func(*event.Example) {}) })
		// zstd pools memory, but the race detector empties pools
		must.True(t, n <= float64(len(values))/50, "codec %d: %v allocations for %d records", codec, n, len(values))
	}
}

// TestBrokerProcess is not a test. It runs the broker of BenchmarkConsume in a separate process, which ends when its
// standard input ends.
func TestBrokerProcess(t *testing.T) {
	if os.Getenv("BLANKOUT_BROKER_PROCESS") == "" {
		t.Skip("only as a process of BenchmarkConsume")
	}
	b := must.Get(StartEmbedded(EmbeddedConfig{Topics: map[string]int32{"t": 1}}))(t)
	defer b.Close()
	fmt.Println("broker:", b.Brokers()[0])
	io.Copy(io.Discard, os.Stdin)
}

func brokerProcess(b *testing.B) (address string) {
	process := exec.Command(os.Args[0], "-test.run=^TestBrokerProcess$")
	process.Env = append(os.Environ(), "BLANKOUT_BROKER_PROCESS=1")
	in := must.Get(process.StdinPipe())(b)
	out := must.Get(process.StdoutPipe())(b)
	must.Do(b, process.Start())
	b.Cleanup(func() {
		in.Close()
		process.Wait()
	})
	must.Get(fmt.Fscanf(out, "broker: %s\n", &address))(b)
	go io.Copy(io.Discard, out) // the goroutine ends with the process
	return address
}

// BenchmarkConsume reads a topic of 200-byte JSON events from a broker in another process, in six ways in turn. It
// reports the rate of each way and its ratio to the first:
//
//	fetch     a loop over kafka-go's Client.Fetch that only counts
//	raw       a loop over the raw fetch path that only counts, without prefetch
//	consumer  Consumer.Next with a decoder that does nothing
//	decode    Consumer.Next with the JSON decoder
//	learn     the whole run loop: decoding ahead, learning at a fixed noise level
//	default   the same with the default optimizer and noise
func BenchmarkConsume(b *testing.B) {
	const events = 300_000
	address := brokerProcess(b)
	ctx := context.Background()
	write := DefaultProducerConfig()
	write.Brokers, write.Topic = []string{address}, "t"
	p := must.Get(NewProducer(ctx, write))(b)
	random := rand.New(rand.NewPCG(1, 2))
	for range events {
		must.Do(b, p.Write(ctx, Message{Value: benchEvent(random)}))
	}
	must.Do(b, errors.Join(p.Flush(ctx), p.Close()))

	names := []string{"fetch", "raw", "consumer", "decode", "learn", "default"}
	ways := []func() (int, error){
		func() (int, error) { return countFetch(ctx, address, events) },
		func() (int, error) { return countRaw(ctx, address, events) },
		func() (int, error) { return countConsumer(ctx, address, &nothing{}, event.NewSchema(8, nil, 2)) },
		func() (int, error) {
			c := record.DefaultConfig()
			s := c.Schema()
			d, err := record.NewDecoder(c, s)
			if err != nil {
				return 0, err
			}
			return countConsumer(ctx, address, d, s)
		},
		func() (int, error) { return learn(ctx, address, fixedLevel()) },
		func() (int, error) { return learn(ctx, address, online.DefaultConfig()) },
	}
	took, cpu := make([]time.Duration, len(ways)), make([]time.Duration, len(ways))
	for b.Loop() {
		for i, way := range ways {
			start, cpuStart := time.Now(), cpuTime()
			n, err := way()
			took[i] += time.Since(start)
			cpu[i] += cpuTime() - cpuStart
			if err != nil || n != events {
				b.Fatalf("%s: %d of %d events, %v", names[i], n, events, err)
			}
		}
	}
	for i, name := range names {
		b.ReportMetric(float64(b.N)*events/took[i].Seconds()/1e6, name+"-M/s")
		b.ReportMetric(float64(cpu[i].Nanoseconds())/float64(b.N)/events, name+"-cpu-ns")
		if i > 0 {
			b.ReportMetric(took[0].Seconds()/took[i].Seconds(), name+"/fetch")
		}
	}
	b.ReportMetric(took[1].Seconds()/took[4].Seconds(), "learn/raw")
	b.ReportMetric(0, "ns/op")
}

// fixedLevel returns settings with one noise level and one optimizer.
func fixedLevel() online.Config {
	c := online.DefaultConfig()
	c.Optimizer, c.Noise = "adagrad", "dropout:0.5"
	return c
}

// benchEvent returns an event of about 200 bytes with 4 numbers and 6 names.
func benchEvent(r *rand.Rand) []byte {
	x := r.NormFloat64()
	return fmt.Appendf(nil, `{"label":%d,"age":%d,"hours":%d,"gain":%.1f,"workclass":"work%d","education":"school%d","marital":"state%d","sex":"s%d","country":"country%03d","night":%v,"score":%.3f,"shop":"shop-%04d"}`,
		r.IntN(2), r.IntN(80), r.IntN(60), 1000*r.Float64(), r.IntN(8), r.IntN(16), r.IntN(5), r.IntN(2), r.IntN(40), x > 0, x, r.IntN(1000))
}

// BenchmarkEvent processes a response of 200-byte JSON events on one goroutine. Each benchmark adds one stage, and
// reports the time per event:
//
//	read     checksums, records, fingerprints, as BenchmarkRead
//	decode   adds the JSON decoder
//	learn    adds a learner at a fixed noise level
//	default  uses the default learner instead
//
// valid measures json.Valid alone, the reference in docs/speed.md.
func BenchmarkEvent(b *testing.B) {
	events := benchEvents(4096)
	for _, stage := range []string{"valid", "read", "decode", "learn", "default"} {
		b.Run(stage, func(b *testing.B) {
			cycle := func() {
				for _, e := range events {
					if !json.Valid(e) {
						b.Fatalf("no JSON: %s", e) // not must.Require, whose arguments are allocated
					}
				}
			}
			switch stage {
			case "read", "decode":
				cycle = eventCycle(b, stage, online.DefaultConfig(), events)
			case "learn":
				cycle = eventCycle(b, stage, fixedLevel(), events)
			case "default":
				cycle = eventCycle(b, "learn", online.DefaultConfig(), events)
			}
			for range 5 {
				cycle()
			}
			b.ReportAllocs()
			start := cpuTime()
			for b.Loop() {
				cycle()
			}
			b.ReportMetric(float64((cpuTime()-start).Nanoseconds())/float64(b.N*len(events)), "cpu-ns/event")
		})
	}
}

func benchEvents(n int) [][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	events := make([][]byte, n)
	for i := range events {
		events[i] = benchEvent(random)
	}
	return events
}

// eventCycle returns a function that processes the events in all stages up to the named stage.
func eventCycle(t testing.TB, stage string, config online.Config, events [][]byte) (cycle func()) {
	records := record.DefaultConfig()
	records.Classes = []string{"0", "1"}
	s := records.Schema()
	decoder := must.Get(record.NewDecoder(records, s))(t)
	if stage == "read" {
		decoder = &nothing{}
	}
	l := must.Get(online.New(config, s))(t)
	c, f, buf := readBenchmark(t, events, false, 0, decoder, s)
	var batch event.Batch
	return func() {
		readOnce(t, c, f, buf, &batch, func(e *event.Example) {
			if stage == "learn" {
				l.Learn(e, nil)
			}
		})
	}
}

// TestEventAllocatesNothing processes events from the bytes of a response to the update of the weights. Only four
// operations may allocate: imputing the numbers that a mask deletes, new policy weights (which models keep), a new
// link, and the models that measure older weights.
func TestEventAllocatesNothing(t *testing.T) {
	for _, c := range []struct {
		covarianceFields int
		most             float64
	}{{0, 620}, {online.DefaultConfig().CovarianceMaxFields, 2500}} {
		config := online.DefaultConfig()
		config.Noise, config.CovarianceMaxFields = "dropout:0.5", c.covarianceFields
		cycle := eventCycle(t, "learn", config, benchEvents(1500))
		for range 6 {
			cycle()
		}
		n := testing.AllocsPerRun(5, cycle)
		must.True(t, n <= c.most, "%v allocations for 1500 events, with the covariance of %d columns", n, c.covarianceFields)
	}
}

func countFetch(ctx context.Context, address string, events int) (int, error) {
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(address), Transport: transport}
	n := 0
	for n < events {
		r, err := client.Fetch(ctx, &kafka.FetchRequest{Topic: "t", Offset: int64(n), MinBytes: 1, MaxBytes: 1 << 20, MaxWait: 500 * time.Millisecond})
		if err = errors.Join(err, fetchError(r)); err != nil {
			return n, err
		}
		for {
			record, err := r.Records.ReadRecord()
			if err == io.EOF {
				break
			}
			if err != nil {
				return n, err
			}
			for _, b := range []kafka.Bytes{record.Key, record.Value} {
				if b != nil {
					b.Close()
				}
			}
			n++
		}
	}
	return n, nil
}

func fetchError(r *kafka.FetchResponse) error {
	if r == nil {
		return nil
	}
	return r.Error
}

func countRaw(ctx context.Context, address string, events int) (int, error) {
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	var x fetchExchange
	var r fetchResponse
	n := 0
	for n < events {
		x.set("t", 0, int64(n), 1<<20, 500*time.Millisecond)
		if _, err := transport.RoundTrip(ctx, kafka.TCP(address), &x); err != nil {
			return n, err
		}
		if err := x.parse(&r); err != nil {
			return n, err
		}
		for rest := r.records; len(rest) > 0; {
			var batch recordBatch
			var err error
			if batch, rest, err = parseBatch(rest); err == errPartialBatch {
				break
			} else if err != nil {
				return n, err
			}
			records := recordReader{rest: batch.Records, left: batch.NumRecords}
			var record rawRecord
			for {
				ok, err := records.next(&record)
				if err != nil {
					return n, err
				}
				if !ok {
					break
				}
				n++
			}
		}
	}
	return n, nil
}

func benchConsumer(ctx context.Context, address string, d record.Decoder, s *event.Schema) (*Consumer, error) {
	config := DefaultConsumerConfig()
	config.Brokers, config.Topics, config.UntilEnd = []string{address}, []string{"t"}, true
	return NewConsumer(ctx, config, d, s, nil)
}

func countConsumer(ctx context.Context, address string, d record.Decoder, s *event.Schema) (int, error) {
	c, err := benchConsumer(ctx, address, d, s)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	n := 0
	for b := (event.Batch{}); ; {
		switch err := c.Next(ctx, &b); err {
		case nil:
			n += len(b.Examples)
		case io.EOF:
			return n, nil
		default:
			return n, err
		}
	}
}

func learn(ctx context.Context, address string, config online.Config) (int, error) {
	records := record.DefaultConfig()
	records.Classes = []string{"0", "1"}
	s := records.Schema()
	d, err := record.NewDecoder(records, s)
	if err != nil {
		return 0, err
	}
	l, err := online.New(config, s)
	if err != nil {
		return 0, err
	}
	c, err := benchConsumer(ctx, address, d, s)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	r := run.Runner{Config: run.DefaultConfig(), Source: c, State: run.State{Learner: l}, Schema: s}
	r.Config.Refused = run.PolicyFail
	if err := r.Run(ctx); err != nil {
		return 0, err
	}
	return int(r.Offsets[0].Records), nil
}

// BenchmarkFile reads a file of svmlight into examples, as the command train does.
func BenchmarkFile(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	var text strings.Builder
	for range 20_000 {
		fmt.Fprintf(&text, "%d", r.IntN(10))
		for d := range 784 {
			if r.IntN(5) == 0 {
				fmt.Fprintf(&text, " %d:%.4g", d+1, float64(1+r.IntN(255))/255)
			}
		}
		text.WriteByte('\n')
	}
	path := filepath.Join(b.TempDir(), "a.svm")
	must.Do(b, os.WriteFile(path, []byte(text.String()), 0o666))
	c := record.DefaultConfig()
	c.MaxClasses = 10
	for _, threads := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			for b.Loop() {
				f, err := OpenFile(path, c, c.Schema())
				must.Do(b, err)
				f.Ahead(threads, nil)
				var batch event.Batch
				for err == nil {
					err = f.Next(b.Context(), &batch)
				}
				must.Require(b, err == io.EOF, "%v", err)
				f.Close()
			}
		})
	}
}

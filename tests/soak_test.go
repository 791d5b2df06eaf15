package tests

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"blankout/internal/must"
	"blankout/internal/streamtest"
	"blankout/stream"
)

// TestSoak runs the real program for the duration BLANKOUT_SOAK with all its functions at once. The program learns a
// stream with hostile records, saves checkpoints, validates, publishes snapshots, scores a topic, and responds to
// requests for predictions, models and metrics.
//
// Memory, file descriptors and goroutines in the last quarter of the time must not exceed those in the second quarter.
// Every record must be counted. BLANKOUT_SOAK_RACE=1 builds the program with the race detector. BLANKOUT_SOAK_RATE is
// the number of records per second. Its default is low, because the test does not measure speed; "full" writes as many
// as the program reads. BLANKOUT_SOAK_KILLS is the number of kills, at equal distances. The events change by soakPhases,
// and the report holds the error of each phase against the least possible one.
func TestSoak(t *testing.T) {
	text := os.Getenv("BLANKOUT_SOAK")
	if text == "" {
		t.Skip("set BLANKOUT_SOAK=10m, say")
	}
	length, err := time.ParseDuration(text)
	must.Require(t, err == nil && length >= 20*time.Second, "BLANKOUT_SOAK=%q: want a duration of at least 20s", text)
	rate, full := 1000, false
	switch text := os.Getenv("BLANKOUT_SOAK_RATE"); text {
	case "":
	case "full":
		rate, full = 50_000, true
	default:
		rate, err = strconv.Atoi(text)
		must.Require(t, err == nil && rate >= 50, "BLANKOUT_SOAK_RATE=%q: want at least 50 records a second, or full", text)
	}
	kills, _ := strconv.Atoi(cmp.Or(os.Getenv("BLANKOUT_SOAK_KILLS"), "0"))
	var flags []string
	if os.Getenv("BLANKOUT_SOAK_RACE") != "" {
		flags = []string{"-race"}
	}
	program := buildProgram(t, flags...)
	broker := startBroker(t, map[string]int32{"events": 2, "predictions": 1, "snapshots": 1})
	l := &learner{program: program, dir: t.TempDir()}
	config := fmt.Sprintf(`
[kafka]
brokers = [%q]
topics = ["events"]
[record]
bits = 16
[checkpoint]
directory = %q
events = 20000
interval = "5s"
[dead_letter]
policy = "skip"
[http]
address = "127.0.0.1:0"
publish_interval = "200ms"
[snapshot]
topic = "snapshots"
file = %q
interval = %q
[predict]
topic = "events"
output = "predictions"
[validate]
events = %d
window = 20000
holdout = 10
directory = ""
`, broker.Brokers()[0], l.checkpoints(), filepath.Join(l.dir, "snapshot.blankout"), max(2*time.Second, length/100).String(), max(5000, min(10*rate, 20_000)))
	must.Do(t, os.WriteFile(filepath.Join(l.dir, "blankout.toml"), []byte(config), 0o644))
	command := l.start(t)
	defer func() { command.Process.Kill() }()
	url := l.url(t)
	defer http.DefaultClient.CloseIdleConnections()

	admin := streamtest.Admin(t, broker.Brokers()...)
	pc := stream.DefaultProducerConfig()
	pc.Brokers, pc.Topic = broker.Brokers(), "events"
	producer := must.Get(stream.NewProducer(t.Context(), pc))(t)
	defer producer.Close()

	var samples []map[string]float64
	var used time.Duration
	wrong := map[soakPhase][]float64{}
	produced, asked, answered, killed := uint64(0), 0, 0, 0
	r := rand.New(rand.NewPCG(1, 1))
	began, trimmed := time.Now(), time.Now()
	for time.Since(began) < length {
		second := time.Now()
		for range rate / 5 {
			must.Do(t, producer.Write(t.Context(), stream.Message{Value: soakEvent(r, soakPhaseOf(produced))}))
			produced++
		}
		must.Do(t, producer.Flush(t.Context()))
		for range max(1, rate/250) {
			response, err := http.Post(url+"/v1/predict?explain=3", "application/json", bytes.NewReader(soakEvent(r, steady)))
			if err != nil {
				t.Fatal(err, l.log()) // not must.Require, which would read the log each time
			}
			answer, err := io.ReadAll(response.Body)
			response.Body.Close()
			switch asked++; {
			case err != nil:
				t.Fatal(err)
			case (response.StatusCode == http.StatusOK || response.StatusCode == http.StatusBadRequest) && json.Valid(answer):
				answered++ // some events are hostile
			case response.StatusCode != http.StatusServiceUnavailable: // no model yet, or too many requests at once
				t.Fatalf("a prediction: %s\n%s", response.Status, answer)
			}
		}
		for _, path := range []string{"/", "/v1/model", "/v1/reports", "/v1/model/offsets"} {
			if response, err := http.Get(url + path); err == nil {
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		}
		s := must.Get(metrics(t.Context(), url))(t)
		samples = append(samples, s)
		if learned := s["blankout_partition_records"]; soakSettled(learned) {
			phase := soakPhaseOf(uint64(learned))
			wrong[phase] = append(wrong[phase], s[`blankout_progressive_error_ratio{span="window"}`])
		}
		if killed < kills && time.Since(began) > length*time.Duration(2*killed+1)/time.Duration(2*kills) {
			killed++
			command.Process.Kill()
			command.Wait()
			used += command.ProcessState.UserTime() + command.ProcessState.SystemTime()
			must.Do(t, os.Truncate(filepath.Join(l.dir, "log"), 0))
			command = l.start(t)
			url = l.url(t)
		}
		for full && float64(produced)-s["blankout_partition_records"] > 100_000 {
			time.Sleep(100 * time.Millisecond)
			s = must.Get(metrics(t.Context(), url))(t)
		}
		// The broker keeps its log in memory, so the test deletes records that all consumers have read.
		if time.Since(trimmed) > 10*time.Second {
			trimmed = time.Now()
			soakTrim(t, admin)
		}
		time.Sleep(time.Until(second.Add(200 * time.Millisecond)))
	}
	predictions := func() uint64 {
		ends := must.Get(admin.ListEndOffsets(t.Context(), "predictions"))(t)
		end, _ := ends.Lookup("predictions", 0)
		return uint64(end.Offset)
	}
	for range 600 {
		if s := must.Get(metrics(t.Context(), url))(t); s["blankout_partition_records"] == float64(produced) && predictions() >= produced {
			samples = append(samples, s)
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	command.Process.Signal(syscall.SIGTERM)
	err = command.Wait()
	must.True(t, err == nil, "%v\n%s", err, l.log())
	must.True(t, !strings.Contains(l.log(), "DATA RACE"), "%v", l.log())
	last := samples[len(samples)-1]
	must.True(t, answered >= asked*9/10, "%d of %d requests were answered", answered, asked)
	predicted := predictions()
	must.True(t, last["blankout_partition_records"] == float64(produced) && predicted >= produced, "%d records produced, %.0f counted, %d predicted", produced, last["blankout_partition_records"], predicted)
	refused, checkpoints := last[`blankout_events_total{outcome="refused"}`], last[`blankout_checkpoints_total{outcome="saved"}`]
	validations, snapshots := last[`blankout_validations_total{outcome="done"}`], last[`blankout_snapshots_total{outcome="published",place="topic"}`]
	must.True(t, validations != 0 && checkpoints != 0 && snapshots != 0 && refused != 0, "this tests little: %+v", last)
	n := len(samples) / 4
	second, fourth := samples[n:2*n], samples[3*n:4*n]
	used += command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	report := fmt.Sprintf("%d records (%.0f refused), %d kills, %d requests, %.0f checkpoints, %.0f validations, %.0f snapshots, %v of processor time\n\n"+
		"| after %v | second quarter | last quarter | most |\n|---|---|---|---|",
		produced, refused, killed, asked, checkpoints, validations, snapshots, used.Round(time.Second), time.Since(began).Round(time.Second))
	for _, what := range []struct {
		name        string
		metric      string
		unit, slack float64 // slack is the allowed increase in addition to 10 %
	}{
		{"memory, MB", "process_resident_memory_bytes", 1e6, 10},
		{"file descriptors", "process_open_fds", 1, 5},
		{"goroutines", "go_goroutines", 1, 10},
	} {
		of := func(samples []map[string]float64) (sorted []float64) {
			for _, s := range samples {
				sorted = append(sorted, s[what.metric]/what.unit)
			}
			slices.Sort(sorted)
			return sorted
		}
		early, late, most := of(second)[n/2], of(fourth)[len(fourth)/2], slices.Max(of(samples))
		report += fmt.Sprintf("\n| %s | %.0f | %.0f | %.0f |", what.name, early, late, most)
		must.True(t, late <= 1.1*early+what.slack, "%s grow", what.name)
	}
	report += "\n\n| phase | error, % | least possible | seen |\n|---|---|---|---|"
	for phase := steady; phase < soakPhases; phase++ {
		seen := wrong[phase]
		if len(seen) == 0 {
			continue
		}
		slices.Sort(seen)
		report += fmt.Sprintf("\n| %s | %.1f | %.1f | %d |", phase, 100*seen[len(seen)/2], 100*phase.least(), len(seen))
	}
	fmt.Println(report) // copied into docs/reliability.md
}

// url returns the HTTP address of a started program.
func (l *learner) url(t *testing.T) string {
	t.Helper()
	serving := regexp.MustCompile(`"url":"(http://[^"]+)"`)
	for range 500 {
		if m := serving.FindStringSubmatch(l.log()); m != nil {
			return m[1]
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal(l.log())
	return ""
}

// counted returns the number of events in the metrics of a learner.
func counted(m map[string]float64) float64 {
	return m["blankout_events_total"] - m[`blankout_events_total{outcome="passed"}`]
}

// soakPhase is what is the matter with the events of a soak.
type soakPhase int

const (
	steady   soakPhase = iota
	reversed           // the sign of the relation has changed
	absent             // half of the events lack x
	dead               // x reads 0 in half of the events
	soakPhases
)

func (p soakPhase) String() string {
	return [...]string{"steady", "reversed relation", "half without x", "half with x = 0"}[p]
}

// least returns the error of the best prediction: that of the sign of x + e/2 from x, for independent standard normals x
// and e, and a coin where x is unknown.
func (p soakPhase) least() float64 {
	known := math.Atan(0.5) / math.Pi
	return must.Either(p == absent || p == dead, known/2+0.25, known)
}

// soakLength is the number of records in a phase.
const soakLength = 400_000

// soakPhaseOf returns the phase of a record by its number.
func soakPhaseOf(record uint64) soakPhase { return soakPhase(record / soakLength % uint64(soakPhases)) }

// soakSettled reports whether the last half of a phase has been reached, in which the error of recent events is that of
// the phase alone.
func soakSettled(records float64) bool { return uint64(records)%soakLength > soakLength/2 }

// soakEvent draws an event. One in a hundred is invalid.
func soakEvent(r *rand.Rand, phase soakPhase) []byte {
	switch r.IntN(1000) {
	case 0:
		return []byte("{spoilt")
	case 1:
		return []byte(`{"label":"yes","x":1e99}`)
	case 2:
		return []byte(`{"label":"maybe","x":1}`)
	case 3:
		return []byte(`{"label":"yes","x":1,"x":2}`)
	case 4:
		return bytes.Repeat([]byte("["), 5000)
	case 5, 6, 7, 8, 9:
		return make([]byte, r.IntN(3000))
	}
	x := r.NormFloat64()
	label := "no"
	if relation := x + 0.5*r.NormFloat64(); relation > 0 != (phase == reversed) {
		label = "yes"
	}
	number := fmt.Sprintf("%.4f", x)
	switch lost := r.IntN(2) == 0; {
	case lost && phase == absent:
		number = "null"
	case lost && phase == dead:
		number = "0"
	}
	return fmt.Appendf(nil, `{"label":%q,"x":%s,"shop":"s%d","words":["w%d","w%d","w%d"]}`, label, number, r.IntN(100), r.IntN(20_000), r.IntN(20_000), r.IntN(20_000))
}

// metricsOf returns the value of each time series in a response of /metrics, as blankout_events_total{outcome="learned"},
// and the sum of each metric over its labels.
func metricsOf(text []byte) map[string]float64 {
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if x, err := strconv.ParseFloat(value, 64); ok && err == nil {
			values[series] += x
			if name, _, labeled := strings.Cut(series, "{"); labeled {
				values[name] += x
			}
		}
	}
	return values
}

// metrics returns metricsOf of the program at a URL. The error means that the program does not answer.
func metrics(ctx context.Context, url string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return metricsOf(text), err
}

// soakTrim deletes the records that the learner and the predictor have committed, except for a window of records for
// validations. It also deletes old snapshots and predictions.
func soakTrim(t *testing.T, admin *kadm.Client) {
	t.Helper()
	least := map[int32]int64{}
	for _, group := range []string{"blankout", "blankout-predict"} {
		committed, err := admin.FetchOffsets(t.Context(), group)
		if err != nil {
			return // nothing is committed yet
		}
		committed.Each(func(o kadm.OffsetResponse) {
			if at, ok := least[o.Partition]; o.Topic == "events" && (!ok || o.At < at) {
				least[o.Partition] = o.At
			}
		})
	}
	to := kadm.Offsets{}
	for partition, at := range least {
		if at > 50_000 {
			to.AddOffset("events", partition, at-50_000, -1)
		}
	}
	ends := must.Get(admin.ListEndOffsets(t.Context(), "predictions"))(t)
	ends.Each(func(o kadm.ListedOffset) { to.AddOffset(o.Topic, o.Partition, o.Offset, -1) })
	_, err := admin.DeleteRecords(t.Context(), to)
	must.Require(t, err == nil || errors.Is(err, io.EOF), "%v", err)
}

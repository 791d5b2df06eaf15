//go:build unix

package tests

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"blankout/internal/longtest"
	"blankout/internal/must"
)

// httpLearner is a learner of events that are posted over HTTP.
type httpLearner struct {
	*learner
	url string
}

func newHTTPLearner(t *testing.T) *httpLearner {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := listener.Addr().String()
	listener.Close()
	dir := t.TempDir()
	config := fmt.Sprintf(`
[record]
seed = 1
[checkpoint]
directory = %q
keep = 2
events = 300
[validate]
directory = %q
[http]
learn = true
address = %q
`, filepath.Join(dir, "checkpoints"), filepath.Join(dir, "reports"), address)
	must.Do(t, os.WriteFile(filepath.Join(dir, "blankout.toml"), []byte(config), 0o644))
	return &httpLearner{&learner{program: buildProgram(t), dir: dir}, "http://" + address + "/v1/learn"}
}

// posted is a request that the program has acknowledged.
type posted struct {
	First  int64 `json:"first"`
	Events int   `json:"events"`
	Again  bool  `json:"again"`
	body   string
}

// post repeats a request until the program acknowledges it, like a client of a server that is sometimes killed. It
// gives up at the time until.
func (l *httpLearner) post(key, body string, until time.Time) (p posted, err error) {
	client := http.Client{Timeout: 5 * time.Second}
	for {
		var r *http.Request
		if r, err = http.NewRequest(http.MethodPost, l.url, strings.NewReader(body)); err != nil {
			return p, err
		}
		r.Header.Set("Idempotency-Key", key)
		var answer *http.Response
		if answer, err = client.Do(r); err == nil {
			var text []byte
			text, err = io.ReadAll(answer.Body)
			answer.Body.Close()
			switch {
			case err != nil:
			case answer.StatusCode == http.StatusOK:
				if err = json.Unmarshal(text, &p); err == nil {
					p.body = body
					return p, nil
				}
			case answer.StatusCode != http.StatusServiceUnavailable && answer.StatusCode != http.StatusTooManyRequests:
				return p, fmt.Errorf("status %d: %s", answer.StatusCode, text)
			default:
				err = fmt.Errorf("status %d: %s", answer.StatusCode, text)
			}
		}
		if time.Now().After(until) {
			return p, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestLearnOverHTTP checks that acknowledged events are learned exactly once and in order, however often the program is
// killed. The weights must equal the weights of a learner that reads the events from a file.
func TestLearnOverHTTP(t *testing.T) {
	t.Parallel()
	kills := max(must.Either(longtest.Asked(), 4, 2), crashKills(t)/4)
	l := newHTTPLearner(t)
	const clients = 3
	stop := make(chan struct{})
	results := make(chan []posted, clients)
	failed := make(chan error, clients)
	end := time.Now().Add(time.Minute + time.Duration(kills)*4*time.Second)
	for c := range clients {
		go func() {
			r := rand.New(rand.NewPCG(uint64(c), 1))
			var out []posted
			for i := 0; ; i++ {
				select {
				case <-stop:
					results <- out
					return
				default:
				}
				var body strings.Builder
				for range 1 + r.IntN(30) {
					x := r.NormFloat64()
					fmt.Fprintf(&body, `{"x":%v,"y":%v,"who":"c%d","label":"%v"}`+"\n", x, r.NormFloat64(), c, x > 0)
				}
				p, err := l.post(fmt.Sprint(c, "/", i), body.String(), end)
				if err != nil {
					failed <- err
					results <- out
					return
				}
				out = append(out, p)
			}
		}()
	}
	r := rand.New(rand.NewPCG(7, 7))
	for range kills {
		_ = l.live(t, time.Duration(300+r.IntN(900))*time.Millisecond, func(p *os.Process) error { return p.Kill() })
	}
	process := l.start(t)
	time.Sleep(time.Second / 2)
	close(stop)
	var all []posted
	for range clients {
		all = append(all, <-results...)
	}
	terminate := func() {
		l.stop(t, process)
	}
	terminate()
	select {
	case err := <-failed:
		t.Fatalf("%v\n%s", err, l.log())
	default:
	}
	slices.SortFunc(all, func(a, b posted) int { return cmp.Compare(a.First, b.First) })
	next, again := int64(0), 0
	var text strings.Builder
	for _, p := range all {
		must.Require(t, p.First == next, "a request begins with event %d, the one before ended at %d", p.First, next)
		if p.Again {
			again++
		}
		next += int64(p.Events)
		text.WriteString(p.body)
	}
	must.Require(t, next >= int64(100*kills), "%d events are too few to tell\n%s", next, l.log())
	_, offsets, events := l.state(t)
	for range 10 { // the log may still contain the last acknowledged events, which the next start learns
		if events == uint64(next) {
			break
		}
		process = l.start(t)
		time.Sleep(time.Second)
		terminate()
		_, offsets, events = l.state(t)
	}
	must.Require(t, events == uint64(next) && offsets[0].Next == next && offsets[0].Records == uint64(next), "%d events were acknowledged, and %d learned: %+v", next, events, offsets)
	file := filepath.Join(l.dir, "events.jsonl")
	must.Do(t, os.WriteFile(file, []byte(text.String()), 0o644))
	run := exec.Command(l.program, "run", "-q", "-d", file, "--set", "record.seed=1", "--set", "checkpoint.directory="+filepath.Join(l.dir, "other"))
	run.Dir = t.TempDir() // a directory without a configuration
	out, err := run.CombinedOutput()
	must.Require(t, err == nil, "%v: %s", err, out)
	got, want := l.exported(t, "checkpoints"), l.exported(t, "other")
	must.True(t, bytes.Equal(got, want), "the weights are not those of a learner that read the events from a file")
	t.Logf("%d kills, %d events in %d requests, %d of them acknowledged when they came again", kills, next, len(all), again)
}

func (l *learner) exported(t *testing.T, model string) []byte {
	t.Helper()
	out := must.Get(exec.Command(l.program, "export", "-m", filepath.Join(l.dir, model), "--format", "json").Output())(t)
	return out
}

// TestDamagedHTTPLog checks that a start refuses a log with a flipped bit in an event that is not learned, exits with 3,
// and leaves the log as it is. A start whose checkpoint has the event goes on.
func TestDamagedHTTPLog(t *testing.T) {
	t.Parallel()
	l := newHTTPLearner(t)
	process := l.start(t)
	for i := range 10 {
		must.Get(l.post("", fmt.Sprintf(`{"x":%d,"label":"%d"}`, i, i%2), time.Now().Add(20*time.Second)))(t)
	}
	must.Do(t, process.Process.Kill())
	_ = process.Wait()
	name := filepath.Join(l.dir, "checkpoints", "inbox", fmt.Sprintf("%016x.events", 0))
	whole := must.Get(os.ReadFile(name))(t)
	flip := func() []byte {
		data := must.Get(os.ReadFile(name))(t)
		data[bytes.Index(data, []byte(`{"x":4`))+5] ^= 2
		must.Do(t, os.WriteFile(name, data, 0o600))
		return data
	}
	damaged := flip()
	failing := l.start(t)
	_ = failing.Wait()
	must.Equal(t, failing.ProcessState.ExitCode(), 3, l.log())
	must.Require(t, strings.Contains(l.log(), "events 4 to 4 are not what was written"), "%s", l.log())
	must.Require(t, bytes.Equal(must.Get(os.ReadFile(name))(t), damaged), "the log is changed")
	must.Do(t, os.WriteFile(name, whole, 0o600))
	learned := func(events int) { // by this process
		t.Helper()
		l.await(t, fmt.Sprintf("%d events are learned", events), func() bool {
			m, err := metrics(t.Context(), strings.TrimSuffix(l.url, "/v1/learn"))
			return err == nil && m[`blankout_events_total{outcome="learned"}`] == float64(events)
		})
	}
	process = l.start(t)
	must.Get(l.post("", `{"x":1,"label":"1"}`, time.Now().Add(20*time.Second)))(t)
	learned(11)
	l.stop(t, process)
	flip()
	process = l.start(t)
	must.Equal(t, must.Get(l.post("", `{"x":1,"label":"1"}`, time.Now().Add(20*time.Second)))(t).First, 11, l.log())
	learned(1)
	l.stop(t, process)
	_, _, events := l.state(t)
	must.Equal(t, events, 12, "learned events")
}

// TestLearnOverHTTPRefuses checks that a request with an invalid event is rejected immediately. The error must have the
// number of the event and of the byte. No event of the request may be stored.
func TestLearnOverHTTPRefuses(t *testing.T) {
	t.Parallel()
	l := newHTTPLearner(t)
	process := l.start(t)
	defer func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		err := process.Wait()
		must.True(t, err == nil, "%v\n%s", err, l.log())
	}()
	_, err := l.post("", `{"x":1,"label":"a"}`, time.Now().Add(20*time.Second))
	must.Require(t, err == nil, "%v\n%s", err, l.log())
	for _, c := range []struct {
		query, body string
		status      int
		want        string
	}{
		{"", `{"x":1,"label":"a"}` + "\n" + `{"x":}`, 400, `"where":"event 1"`},
		{"", `{"x":1,"label":"a"}{"x":1e31}`, 400, `out-of-range: byte 6: field \"x\" is 1e31`},
		{"", `[{"x":1}`, 400, "event 1"},
		{"", ``, 400, "no events"},
		{"?predict=x", `{"x":1}`, 400, "want 1 or 0"},
		{"?labels=1", `{"x":1}`, 400, "labels.topics"},
		{"", strings.Repeat(" ", 9<<20), 413, "body"},
		{"?predict=1", `{"x":1,"label":"b"}`, 200, `"first":1,"predictions":[`},
	} {
		answer := must.Get(http.Post(l.url+c.query, "application/json", strings.NewReader(c.body)))(t)
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		must.True(t, err == nil && answer.StatusCode == c.status && strings.Contains(string(text), c.want), "%.40q: status %d, %s (%v), want %d and %s", c.body, answer.StatusCode, text, err, c.status, c.want)
	}
	var many strings.Builder
	for i := range 150 {
		fmt.Fprintf(&many, "{\"x\":1,\"label\":\"class%d\"}\n", i)
	}
	must.Get(l.post("", many.String(), time.Now()))(t, "more classes than max_classes")
	for _, args := range [][]string{
		{"--set", "http.learn=true", "--set", "http.address=0.0.0.0:0", "--set", "http.public=true"},
		{"--set", "http.learn=true", "--set", "http.address="},
		{"--set", "http.learn=true", "--group", "learners"},
		{"--set", "http.learn=true", "--predict-only"},
		{"--set", "http.learn=true", "-d", "-"},
		{"--set", "http.learn=true", "--set", "checkpoint.directory=s3://bucket/prefix"},
	} {
		c := exec.Command(l.program, append([]string{"run", "--set", "checkpoint.directory=" + filepath.Join(l.dir, "none")}, args...)...)
		c.Dir = t.TempDir()
		out, err := c.CombinedOutput()
		must.True(t, err != nil && c.ProcessState.ExitCode() == 2 && strings.Contains(string(out), "learn"), "%v: %v: %s", args, err, out)
	}
}

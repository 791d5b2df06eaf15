package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"go.uber.org/goleak"

	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/internal/s3test"
	"blankout/online/health"
	"blankout/stream"
)

// TestMain lets the test scripts run this test binary as blankout: the real program, including main, in a separate
// process.
func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, map[string]func(){"blankout": main})
}

// leakless fails a test run that passes but leaves goroutines running. goleak.VerifyTestMain does the same but cannot
// run testscript.Main.
type leakless struct{ *testing.M }

func (m leakless) Run() int {
	// A child process inherits an ignored SIGHUP. Under nohup, the scripts that send SIGHUP would therefore wait
	// forever. If this process catches the signal, the signal has its default action in a child.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	code := longtest.Waiting(m.M, 8).Run()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			// By default the race detector waits a second at each exit. The scripts start the program about 1,200 times.
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			e.Setenv("GOGC", "400") // a sixth of the processor time would collect the garbage of programs that soon end
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": checkCode, "broker": startBroker, "await": await, "address": address, "get": get, "post": post, "registry": startRegistry, "store": startStore, "flip": flipByte, "clean": clean, "parquet": writeParquet,
		},
	})
}

// checkCode implements the script command "code N args…". It runs blankout with these arguments, which must end with
// exit code N. The script commands stdout and stderr can then check the output.
func checkCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: code N args…")
	}
	got := 0
	if err := ts.Exec("blankout", args[1:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("blankout %s: %v", strings.Join(args[1:], " "), err)
		}
		got = exit.ExitCode()
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// writeParquet implements the script command "parquet FROM TO". It converts JSON lines {"label": …, "shop": …, "x": …,
// "words": […]} to a Parquet file. The value of x may be null.
func writeParquet(ts *testscript.TestScript, neg bool, args []string) {
	type event struct {
		Label string   `json:"label" parquet:"label"`
		Shop  string   `json:"shop" parquet:"shop,dict"`
		X     *float64 `json:"x" parquet:"x,optional"`
		Words []string `json:"words" parquet:"words,list"`
	}
	var rows []event
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var e event
		ts.Check(json.Unmarshal([]byte(line), &e))
		rows = append(rows, e)
	}
	ts.Check(parquet.WriteFile(ts.MkAbs(args[1]), rows))
}

// clean implements the script command "clean args…". It runs blankout with these arguments, which must succeed and must
// not write terminal control characters.
func clean(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(ts.Exec("blankout", args...))
	for _, stream := range []string{"stdout", "stderr"} {
		if strings.ContainsRune(ts.ReadFile(stream), '\x1b') {
			ts.Fatalf("blankout %s: ESC in %s", strings.Join(args, " "), stream)
		}
	}
}

// startBroker implements the script command "broker TOPIC…". It starts an embedded broker for the rest of the script
// and sets its address in blankout's configuration. The topics have one partition each; TOPIC:N has N partitions.
func startBroker(ts *testscript.TestScript, neg bool, topics []string) {
	c := stream.EmbeddedConfig{Topics: map[string]int32{}}
	for _, topic := range topics {
		name, partitions, several := strings.Cut(topic, ":")
		c.Topics[name] = 1
		if several {
			n, err := strconv.ParseInt(partitions, 10, 32)
			ts.Check(err)
			c.Topics[name] = int32(n)
		}
	}
	broker, err := stream.StartEmbedded(c)
	ts.Check(err)
	ts.Defer(broker.Close)
	ts.Setenv("BLANKOUT_KAFKA_BROKERS", strings.Join(broker.Brokers(), ","))
}

// blankout runs the program, which must end with exit code 0, and returns its output and its log.
func blankout(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, log bytes.Buffer
	code := execute(t.Context(), args, strings.NewReader(""), &out, &log)
	must.Require(t, code == 0, "%q: exit code %d\n%s", args, code, log.String())
	return out.String(), log.String()
}

// await implements the script command "await FILE": it waits until a background command has written the file.
func await(ts *testscript.TestScript, neg bool, args []string) {
	for range 6000 {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s does not come", args[0])
}

// address implements the script command "address VARIABLE": it sets the variable to a free address on the loopback
// interface.
func address(ts *testscript.TestScript, neg bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], l.Addr().String())
	ts.Check(l.Close())
}

// get implements the script command "get PATH PATTERN": it repeats the request to $BLANKOUT_HTTP_ADDRESS until the
// response matches the pattern.
func get(ts *testscript.TestScript, neg bool, args []string) {
	want := regexp.MustCompile(args[1])
	var got string
	for range 6000 {
		r, err := http.Get("http://" + ts.Getenv("BLANKOUT_HTTP_ADDRESS") + args[0])
		if err != nil {
			got = err.Error()
		} else {
			body, err := io.ReadAll(r.Body)
			ts.Check(errors.Join(err, r.Body.Close()))
			if got = string(body); r.StatusCode == http.StatusOK && want.MatchString(got) {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s does not come to match %s; it is\n%s", args[0], args[1], got)
}

// post implements the script command "post". It sends an empty request to a path of the server, which must accept it.
func post(ts *testscript.TestScript, neg bool, args []string) {
	r, err := http.Post("http://"+ts.Getenv("BLANKOUT_HTTP_ADDRESS")+args[0], "", nil)
	ts.Check(err)
	ts.Check(r.Body.Close())
	if r.StatusCode >= 300 {
		ts.Fatalf("%s: %s", args[0], r.Status)
	}
}

// startRegistry implements the script command "registry". It starts a schema registry for the rest of the script and
// sets its address in blankout's configuration. The registry responds with errors as long as a file "away" exists.
func startRegistry(ts *testscript.TestScript, neg bool, args []string) {
	handler, away := srfake.NewRegistry().Handler(), ts.MkAbs("away")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := os.Stat(away); err == nil {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	ts.Defer(server.Close)
	ts.Setenv("BLANKOUT_REGISTRY_URL", server.URL)
}

// startStore implements the script command "store". It starts an S3-compatible store with the bucket "models" and sets
// its address in blankout's configuration.
func startStore(ts *testscript.TestScript, neg bool, args []string) {
	store := s3test.Start()
	ts.Defer(store.Close)
	ts.Setenv("BLANKOUT_S3_ENDPOINT", store.URL)
	ts.Setenv("BLANKOUT_S3_REGION", s3test.Region)
	ts.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
	ts.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
}

// flipByte implements the script command "flip FILE": it changes the byte in the middle of the file.
func flipByte(ts *testscript.TestScript, neg bool, args []string) {
	name := ts.MkAbs(args[0])
	data, err := os.ReadFile(name)
	ts.Check(err)
	data[len(data)/2] ^= 1
	ts.Check(os.WriteFile(name, data, 0o600))
}

// TestExamples checks that every command line in the examples of the help texts is run by a script, word for word.
func TestExamples(t *testing.T) {
	ran := scripted(t, "testdata/script/*.txtar")
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		must.True(t, c.Example != "" || c.Name() == "help", "%s has no example", c.CommandPath())
		for line := range strings.Lines(c.Example) {
			line = strings.TrimSpace(line)
			must.True(t, line == "" || ran[line], "%s: no script runs the example %q", c.CommandPath(), line)
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit((&program{}).root())
}

// scripted returns the command lines that the scripts run.
func scripted(t *testing.T, pattern string) map[string]bool {
	t.Helper()
	scripts := must.Get(filepath.Glob(pattern))(t)
	ran := map[string]bool{}
	for _, name := range scripts {
		text := must.Get(os.ReadFile(name))(t)
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(strings.TrimPrefix(line, "exec "), "&") // a background command
			ran[strings.TrimSpace(line)] = true
		}
	}
	return ran
}

// TestDocs checks that the scripts run the commands of docs/start.md and docs/configure.md.
func TestDocs(t *testing.T) {
	for _, d := range []struct {
		page, scripts string
		least         int // least number of commands
	}{{"start.md", "start.txtar", 10}, {"configure.md", "*.txtar", 8}} {
		text := must.Get(os.ReadFile("../../docs/" + d.page))(t)
		ran, commands := scripted(t, "testdata/script/"+d.scripts), 0
		for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(block[1]) {
				line = strings.ReplaceAll(strings.TrimSpace(line), "127.0.0.1:8642", "$BLANKOUT_HTTP_ADDRESS")
				line = strings.ReplaceAll(line, "127.0.0.1:9092", "$BLANKOUT_KAFKA_BROKERS")
				if strings.HasPrefix(line, "go build ") || d.page == "start.md" && (strings.HasPrefix(line, "export ") || line == "blankout broker") {
					continue // building this program and starting a broker: the tests in tests/ run these commands from a clone
				}
				commands++
				must.True(t, ran[line], "docs/%s: no line of %s runs %q", d.page, d.scripts, line)
			}
		}
		must.True(t, commands >= d.least, "docs/%s: %d commands", d.page, commands)
	}
}

// TestTrainingIsSilent checks that silent noise is recognized by its kind. Group noise on a group named "silent" must
// not count as silent.
func TestTrainingIsSilent(t *testing.T) {
	for _, c := range []struct {
		noise string
		want  bool
	}{
		{"none", false},
		{"silent:0.5", true},
		{"silent-group:0", true},
		{"group:silent=0.3", false},
	} {
		var o trainFlags
		o.config.Noise = c.noise
		must.Equal(t, o.silent(), c.want, "noise", c.noise)
	}
	var o trainFlags
	o.online.config.SilentMissing = 0.1
	must.True(t, o.silent(), "silent_missing is not silent")
}

// TestOtherStateVersion checks that run rejects a checkpoint whose learner has a different state version. The error
// must name the file and both versions, and must give advice.
func TestOtherStateVersion(t *testing.T) {
	t.Chdir(t.TempDir())
	must.Do(t, os.WriteFile("events.jsonl", []byte(strings.Repeat("{\"label\":0,\"x\":1}\n{\"label\":1,\"x\":2}\n", 20)), 0o644))
	run := func() (code int, log string) {
		var out, errors bytes.Buffer
		code = execute(t.Context(), []string{"run", "-d", "events.jsonl", "--label", "label", "--set", "http.address="}, strings.NewReader(""), &out, &errors)
		return code, errors.String()
	}
	code, log := run()
	must.Require(t, code == 0, "exit code %d\n%s", code, log)
	names, err := filepath.Glob(filepath.Join("checkpoints", "*.blankout"))
	must.Require(t, err == nil && len(names) != 0, "%v %v", names, err)
	for _, name := range names {
		file := must.Get(checkpoint.ReadFile(name))(t)
		data := must.Get(file.Block("learner"))(t)
		data[0] += 3
		must.Do(t, checkpoint.WriteFile(name, file.Kind, slices.Values(file.Blocks)))
	}
	code, log = run()
	must.True(t, code == 3 && strings.Contains(log, filepath.Base(names[len(names)-1])+": restoring the learner: block learner has version ") && strings.Contains(log, ", and this program reads version ") && strings.Contains(log, "--reset"),
		"exit code %d\n%s", code, log)
}

// TestHealthOfFields checks the reports about a sensor that fails and recovers. The log of run must use the times of
// the records. The command inspect must list the alarms of a checkpoint and, with --features, the state of every field.
// Stopping and restarting during an alarm must not change the reports.
func TestHealthOfFields(t *testing.T) {
	t.Chdir(t.TempDir())
	var lines bytes.Buffer
	for i := range 8000 {
		label, x, vibration := "ok", i%7, "null"
		if i%2 == 1 {
			label, x = "broken", i%7+5
		}
		if i < 3000 || i >= 6000 {
			vibration = fmt.Sprint(x)
		}
		fmt.Fprintf(&lines, `{"label":%q,"at":%d,"vibration":%s,"room":"r%d","version":2,"level\u001b[2J":%d}`+"\n", label, 1_700_000_000_000+1000*i, vibration, i%5, i%11)
	}
	must.Do(t, os.WriteFile("events.jsonl", lines.Bytes(), 0o644))
	run := []string{"run", "-d", "events.jsonl", "--set", "record.label=label", "--set", "record.time=at", "--set", "checkpoint.directory=checkpoints", "--set", "http.address=", "--max-events"}
	dead := "vibration missing in 100 % since 2023-11-14T23:03:20Z (usually 0 %); error forecast "
	_, log := blankout(t, append(run, "5000")...)
	must.True(t, strings.Count(log, dead) == 1, "the log: %s", log)
	out, _ := blankout(t, "inspect", "checkpoints")
	must.True(t, strings.Contains(out, dead), "inspect: %s", out)
	out, _ = blankout(t, "inspect", "checkpoints", "--features")
	must.True(t, strings.Count(out, dead) == 2 && strings.Contains(out, "\nchanges\n") && !strings.Contains(out, "\x1b") && !strings.Contains(out, "NaN"), "inspect --features: %s", out)
	for _, want := range []string{" vibration numeric 1 0 ", ` level\x1b[2J numeric 0 0 `, " room categorical ", " 0.9998 true "} {
		must.True(t, strings.Contains(strings.Join(strings.Fields(out), " "), want), "inspect --features lacks %q: %s", want, out)
	}
	var i struct{ Health *health.Health }
	out, _ = blankout(t, "inspect", "checkpoints", "--json")
	err := json.Unmarshal([]byte(out), &i)
	must.True(t, err == nil && i.Health.Alarms == 1 && i.Health.Fields[0].Alarms[0].SinceEvent == 3001, "inspect --json: %v %s", err, out)
	_, log = blankout(t, append(run, "3000")...)
	must.True(t, !strings.Contains(log, dead) && strings.Count(log, "back to normal: vibration missing in 0 % since 2023-11-14T23:5") == 1, "the log: %s", log)
	out, _ = blankout(t, "inspect", "checkpoints")
	must.True(t, !strings.Contains(out, "\nhealth.fields.alarms\n"), "inspect: %s", out)
}

// TestLargestWeights checks that the evidence for a class is summed over all outputs that involve the class.
func TestLargestWeights(t *testing.T) {
	for _, c := range []struct {
		name    string
		classes []string
		loss    string
		pairs   bool
		weights [][]float64 // weights by output and column
		want    string
	}{
		{"two classes", []string{"no", "yes"}, "logistic:gaussian", false, [][]float64{{2, -1}}, "no #1 1, yes #0 2"},
		{"one against the rest", []string{"a", "b", "c"}, "logistic:gaussian", false, [][]float64{{1, 0}, {0, 2}, {3, -1}}, "a #0 1, b #1 2, c #0 3"},
		{"pairs b:a, c:a, c:b", []string{"a", "b", "c"}, "logistic:gaussian", true, [][]float64{{-1, 0}, {-2, 1}, {0, 4}}, "a #0 3, c #1 5"},
		{"numbers", []string{"3", "5", "8"}, "linear", false, [][]float64{{2, -1}}, "smaller numbers #1 1, larger numbers #0 2"},
	} {
		m := model.NewLinear(event.NewSchema(4, c.classes, 0), c.loss, "none", c.weights, make([]float64, len(c.weights)))
		m.Pairs = c.pairs
		got := ""
		for _, list := range largestWeights(m, 1) {
			for _, w := range list {
				got += fmt.Sprintf(", %s %s %v", w.Class, w.Feature, w.Weight)
			}
		}
		must.True(t, got == ", "+c.want, "%s: %s, want %s", c.name, got[2:], c.want)
	}
}

package main

import (
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

	"blankout/internal/must"
	"blankout/internal/s3test"
	"blankout/stream"
)

// TestMain lets the scripts below run this test binary as blankout: the real
// program in a process of its own, main included.
func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, map[string]func(){"blankout": main})
}

// leakless fails tests that pass but leave goroutines behind, as
// goleak.VerifyTestMain does, which cannot be told to run testscript.Main.
type leakless struct{ *testing.M }

func (m leakless) Run() int {
	// A program inherits an ignored SIGHUP, and under nohup the scripts that send one
	// would wait for ever. What is caught here is at its default in a child.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	code := m.M.Run()
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
			// The race detector otherwise waits a second at each of some 500 exits.
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": checkCode, "broker": startBroker, "await": await, "address": address, "get": get, "registry": startRegistry, "store": startStore, "flip": flipByte, "clean": clean, "parquet": writeParquet,
		},
	})
}

// checkCode is the script command "code N args…": blankout with these arguments
// must end with exit code N. stdout and stderr then look at what it wrote.
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

// writeParquet is the script command "parquet FROM TO": it writes the JSON lines of a file
// {"label": …, "shop": …, "x": …, "words": […]}, of which x may be null, as a Parquet file.
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

// clean is the script command "clean args…": blankout with these arguments must
// succeed and write nothing that a terminal would obey.
func clean(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(ts.Exec("blankout", args...))
	for _, stream := range []string{"stdout", "stderr"} {
		if strings.ContainsRune(ts.ReadFile(stream), '\x1b') {
			ts.Fatalf("blankout %s: ESC in %s", strings.Join(args, " "), stream)
		}
	}
}

// startBroker is the script command "broker TOPIC…": it starts an embedded broker
// with these topics, of one partition each or as many as TOPIC:N says, for the
// rest of the script, and points blankout's configuration at it.
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

// await is the script command "await FILE": it waits for a command in the
// background to write it.
func await(ts *testscript.TestScript, neg bool, args []string) {
	for range 6000 {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s does not come", args[0])
}

// address is the script command "address VARIABLE": it sets the variable to a
// free address on the loopback interface.
func address(ts *testscript.TestScript, neg bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], l.Addr().String())
	ts.Check(l.Close())
}

// get is the script command "get PATH PATTERN": the answer to this request to
// $BLANKOUT_HTTP_ADDRESS must come to match.
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

// startRegistry is the script command "registry": it starts a schema registry for the rest
// of the script, and points blankout's configuration at it. While there is a file "away" it
// answers with errors.
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

// startStore is the script command "store": it starts an S3-compatible store with the bucket
// models and points blankout at it.
func startStore(ts *testscript.TestScript, neg bool, args []string) {
	store := s3test.Start()
	ts.Defer(store.Close)
	ts.Setenv("BLANKOUT_S3_ENDPOINT", store.URL)
	ts.Setenv("BLANKOUT_S3_REGION", s3test.Region)
	ts.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
	ts.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
}

// flipByte is the script command "flip FILE": it changes the byte in the middle.
func flipByte(ts *testscript.TestScript, neg bool, args []string) {
	name := ts.MkAbs(args[0])
	data, err := os.ReadFile(name)
	ts.Check(err)
	data[len(data)/2] ^= 1
	ts.Check(os.WriteFile(name, data, 0o600))
}

// TestExamples holds every line of every command's example against the scripts:
// what a help text shows has been run, word for word.
func TestExamples(t *testing.T) {
	ran := scripted(t, "testdata/script/*.txtar")
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Example == "" && c.Name() != "help" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			if line = strings.TrimSpace(line); line != "" && !ran[line] {
				t.Errorf("%s: no script runs the example %q", c.CommandPath(), line)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit((&program{}).root())
}

// scripted returns the lines that scripts run.
func scripted(t *testing.T, pattern string) map[string]bool {
	t.Helper()
	scripts := must.Get(filepath.Glob(pattern))(t)
	ran := map[string]bool{}
	for _, name := range scripts {
		text := must.Get(os.ReadFile(name))(t)
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(strings.TrimPrefix(line, "exec "), "&") // in the background
			ran[strings.TrimSpace(line)] = true
		}
	}
	return ran
}

// TestDocs holds the commands of docs/start.md and docs/configure.md against the scripts that
// run them.
func TestDocs(t *testing.T) {
	for _, d := range []struct {
		page, scripts string
		least         int // commands
	}{{"start.md", "start.txtar", 10}, {"configure.md", "*.txtar", 8}} {
		text := must.Get(os.ReadFile("../../docs/" + d.page))(t)
		ran, commands := scripted(t, "testdata/script/"+d.scripts), 0
		for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(block[1]) {
				line = strings.ReplaceAll(strings.TrimSpace(line), "127.0.0.1:8642", "$BLANKOUT_HTTP_ADDRESS")
				line = strings.ReplaceAll(line, "127.0.0.1:9092", "$BLANKOUT_KAFKA_BROKERS")
				if strings.HasPrefix(line, "go build ") || d.page == "start.md" && (strings.HasPrefix(line, "export ") || line == "blankout broker") {
					continue // this program, and the script's broker: the tests of tests/ run these from a clone
				}
				if commands++; !ran[line] {
					t.Errorf("docs/%s: no line of %s runs %q", d.page, d.scripts, line)
				}
			}
		}
		if commands < d.least {
			t.Errorf("docs/%s: %d commands", d.page, commands)
		}
	}
}

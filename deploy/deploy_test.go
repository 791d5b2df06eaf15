// Package deploy_test checks the files of this directory against the program.
package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dustin/go-humanize"

	"blankout/config"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/serve"
	"blankout/stream"
	"blankout/stream/record"
)

// TestMetricsExist checks that dashboards and alerts use only metrics that the program exports.
func TestMetricsExist(t *testing.T) {
	table := must.Get(os.ReadFile("../docs/reference.md"))(t)
	name := regexp.MustCompile(`\bblankout_[a-z0-9_]+\b`)
	for _, file := range []string{"grafana/dashboards/blankout.json", "prometheus/alerts.yml", "prometheus/alerts_test.yml"} {
		data := must.Get(os.ReadFile(file))(t)
		found := name.FindAllString(string(data), -1)
		must.True(t, len(found) >= 5, "%s names %d metrics", file, len(found))
		for _, metric := range found {
			must.True(t, bytes.Contains(table, []byte("`"+metric+"`")), "%s: there is no metric %s", file, metric)
		}
	}
}

func TestDashboard(t *testing.T) {
	data := must.Get(os.ReadFile("grafana/dashboards/blankout.json"))(t)
	var d struct {
		Title  string
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	must.Do(t, json.Unmarshal(data, &d))
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		must.True(t, len(p.Targets) != 0 && p.GridPos.X+p.GridPos.W <= 24, "%+v", p)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				must.Require(t, taken[at] == "", "%s lies over %s", p.Title, taken[at])
				taken[at] = p.Title
			}
		}
	}
}

// composed returns the configuration, with the environment variables that the containers set.
func composed(t *testing.T) *config.Loaded {
	t.Helper()
	compose := must.Get(os.ReadFile("docker-compose.yml"))(t)
	set := regexp.MustCompile(`(?m)^ +(BLANKOUT_[A-Z_]+): "?([^"\n]+)"?$`).FindAllStringSubmatch(string(compose), -1)
	env := must.Map(set, func(m []string) string { return m[1] + "=" + m[2] })
	l := must.Get(config.Load(config.Source{File: "blankout.toml", Env: env}))(t)
	must.True(t, len(env) >= 3, "%v: the containers set more", env)
	return l
}

// TestConfiguration checks that the configuration is valid with the environment variables of the containers.
func TestConfiguration(t *testing.T) {
	l := composed(t)
	must.True(t, l.HTTP.Address == "0.0.0.0:8642" && l.HTTP.Public, "%+v", l.HTTP)
}

// TestRebinding checks that the learner of the containers responds to other containers and to this machine. It must not
// respond to a web page whose host name resolves to the learner's address.
func TestRebinding(t *testing.T) {
	c := composed(t).HTTP.Config
	c.Address = "127.0.0.1:0"
	server := must.Get(serve.Start(c, serve.Service{}, slog.New(slog.DiscardHandler)))(t)
	defer server.Close(context.Background())
	defer http.DefaultClient.CloseIdleConnections()
	for host, want := range map[string]int{"blankout:8642": 200, "127.0.0.1:8642": 200, "localhost:8642": 200, "evil.example:8642": 421} {
		request := must.Get(http.NewRequest("GET", server.URL()+"/metrics", nil))(t)
		request.Host = host
		response := must.Get(http.DefaultClient.Do(request))(t)
		response.Body.Close()
		must.True(t, response.StatusCode == want, "%s: %s", host, response.Status)
	}
}

// TestDockerfile checks that every image is named by tag and digest. The linker flags of the Dockerfile must set the
// version that the program reports.
func TestDockerfile(t *testing.T) {
	text := must.Get(os.ReadFile("Dockerfile"))(t)
	compose := must.Get(os.ReadFile("docker-compose.yml"))(t)
	named := regexp.MustCompile(`(?m)^(?:FROM|ARG GO_IMAGE=| +image:) *(\S+)`).FindAllStringSubmatch(string(text)+string(compose), -1)
	must.True(t, len(named) == 6, "%d images, want 6: %q", len(named), named)
	pinned := regexp.MustCompile(`^[a-z/]+:v?[0-9]+\.[0-9]+\.[0-9]+@sha256:[0-9a-f]{64}$`)
	for _, m := range named {
		image := m[1]
		must.True(t, image == "scratch" || image == "${GO_IMAGE}" || pinned.MatchString(image), "image %s: no tag with a digest", image)
	}
	flags := regexp.MustCompile(`-ldflags="([^"]+)"`).FindStringSubmatch(string(text))
	must.Require(t, flags != nil && strings.Contains(string(text), `org.opencontainers.image.revision="${REVISION}"`), "no flags or revision:\n%s", text)
	const revision = "0123456789abcdef0123456789abcdef01234567"
	program := filepath.Join(t.TempDir(), "blankout")
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags="+strings.ReplaceAll(flags[1], "${REVISION}", revision), "-o", program, "../cmd/blankout")
	if longtest.Race {
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // so that the build cache has its packages
	}
	out, err := build.CombinedOutput()
	must.Require(t, err == nil, "%v\n%s", err, out)
	out, err = exec.Command(program, "version").Output()
	must.True(t, err == nil && strings.Contains(string(out), revision), "%v\n%s", err, out)
}

// TestExamples checks that every event of every example can be decoded.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("examples/*")
	must.Require(t, err == nil && len(files) == 4, "%v %v", files, err)
	for _, file := range files {
		recordConfig := record.DefaultConfig()
		schema := recordConfig.Schema()
		source, err := stream.OpenFile(file, recordConfig, schema)
		must.Do(t, err)
		var b event.Batch
		n := 0
		for err = source.Next(context.Background(), &b); err == nil; err = source.Next(context.Background(), &b) {
			for i := range b.Examples {
				e := &b.Examples[i]
				must.True(t, e.Refused == nil && e.Label != event.Unlabeled && e.Features.Len() != 0, "%s: event %d: %+v", file, e.Offset, e)
				n++
			}
		}
		must.True(t, errors.Is(err, io.EOF) && n >= 2 && len(schema.Classes) == 2, "%s: %d events, classes %q, %v", file, n, schema.Classes, err)
		source.Close()
	}
}

// TestUnitMemory checks that the systemd unit limits the program's memory, and that GOMEMLIMIT is below that limit.
// (TestUnitRestarts in ../tests checks after which exit codes the unit restarts the program.)
func TestUnitMemory(t *testing.T) {
	text := must.Get(os.ReadFile("blankout.service"))(t)
	bytes := func(pattern string) uint64 {
		m := regexp.MustCompile(`(?m)^` + pattern + `$`).FindSubmatch(text)
		must.Require(t, m != nil, "no line %s", pattern)
		n := must.Get(humanize.ParseBytes(string(m[1]) + "iB"))(t) // systemd's G is 2^30, like Go's GiB
		return n
	}
	most, limit := bytes(`MemoryMax=(\d+[MG])`), bytes(`Environment=GOMEMLIMIT=(\d+[MG])iB`)
	must.True(t, limit < most && limit >= most/2, "GOMEMLIMIT is %d, MemoryMax %d", limit, most)
	must.True(t, regexp.MustCompile(`(?m)^LimitCORE=0$`).Match(text), "a core dump would hold secrets and events")
}

// TestByTheirReaders checks configuration files of other programs with these programs, if they are installed.
func TestByTheirReaders(t *testing.T) {
	for _, command := range []string{
		"promtool check config prometheus/prometheus.yml",
		"promtool test rules prometheus/alerts_test.yml",
		// An exposure of at most 1.2 of 10: the remaining exposure is network access.
		"systemd-analyze security --offline=true --threshold=12 blankout.service",
	} {
		t.Run(command, func(t *testing.T) {
			words := strings.Fields(command)
			if _, err := exec.LookPath(words[0]); err != nil {
				t.Skipf("no %s here", words[0])
			}
			out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
			must.True(t, err == nil, "%v\n%s", err, out)
		})
	}
}

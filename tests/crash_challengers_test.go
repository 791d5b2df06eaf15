package tests

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"blankout/app/run"
	"blankout/checkpoint"
	"blankout/internal/longtest"
	"blankout/internal/must"
)

// challengerTables configures two challengers. One challenger has its own columns, including the field x that
// determines the label. This challenger becomes the leader.
const challengerTables = `
[learner]
noise = "none"

[[challenger]]
name = "alike"
c = 1.01
promote = "auto"

[[challenger]]
name = "better"
drop = ["shop"]
promote = "auto"
window = 10000
`

// newContest returns a learner with challengers.
func newContest(t *testing.T, program, broker string) *learner {
	t.Helper()
	l := newLearner(t, program, broker, "one")
	file := filepath.Join(l.dir, "blankout.toml")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(bytes.Replace(text, []byte("seed = 1"), []byte("drop = [\"x\"]\nseed = 1"), 1), challengerTables...), 0o644)
	}
	must.Do(t, err)
	return l
}

func (l *learner) leader(t *testing.T) string {
	t.Helper()
	data, _, _ := l.state(t)
	file := must.Get(checkpoint.Decode(data))(t)
	return must.Get(run.ReadChallengers(file.Blocks))(t).Leader
}

// TestCrashChallengers runs several learners of one stream. It kills the program often, before and after a challenger
// becomes the leader automatically. The final state must have the same bytes as without kills.
func TestCrashChallengers(t *testing.T) {
	t.Parallel()
	kills := crashKills(t)
	program := buildProgram(t)
	broker := crashBroker(t, "one")
	address := broker.Brokers()[0]
	reference := newContest(t, program, address)
	begin := time.Now()
	reference.finish(t)
	took := time.Since(begin)
	reference.expect(t, "one")
	leader := reference.leader(t)
	must.Require(t, leader == "better", "%s is the leader\n%s", leader, reference.log())
	killRounds(t, (kills+1)/2, took, func(int) *learner { return newContest(t, program, address) }, func(_ int, l *learner) { l.check(t, "one", reference) })
	t.Run("promoted by hand", func(t *testing.T) { killPromoted(t, newContest(t, program, address)) })
}

// killPromoted checks that an acknowledged promotion survives a kill.
func killPromoted(t *testing.T, l *learner) {
	flags := l.flags
	l.flags = []string{"--set=http.address=127.0.0.1:0", "--set=checkpoint.events=0", "--set=checkpoint.interval=1h"}
	c := l.start(t)
	defer c.Process.Kill()
	url := l.url(t)
	promote := func(name string) (int, string) {
		answer, err := http.Post(url+"/v1/promote", "application/json", strings.NewReader(fmt.Sprintf(`{"name":%q}`, name)))
		must.Require(t, err == nil, "%v\n%s", err, l.log())
		defer answer.Body.Close()
		text := must.Get(io.ReadAll(answer.Body))(t)
		return answer.StatusCode, string(text)
	}
	status, text := promote("nobody")
	must.True(t, status == http.StatusNotFound && strings.Contains(text, "alike"), "nobody: %d %s", status, text)
	status, text = promote("alike")
	must.Require(t, status == http.StatusOK, "%d %s\n%s", status, text, l.log())
	must.Do(t, c.Process.Kill())
	_ = c.Wait()
	leader := l.leader(t)
	must.Require(t, leader == "alike", "%s is the leader after the kill", leader)
	l.flags = append(flags, "--max-events=1")
	l.finish(t)
	must.Equal(t, l.leader(t), "alike", "the leader after the restart")
}

// TestCrashAtPromotion kills the program between a promotion and the checkpoint of the promotion. After the restart the
// promotion must happen again at the same record.
func TestCrashAtPromotion(t *testing.T) {
	longtest.Only(t)
	program := buildProgram(t, "-tags=failpoint")
	broker := crashBroker(t, "one")
	reference := newContest(t, program, broker.Brokers()[0])
	reference.finish(t)
	for _, place := range []string{"run.promoted=kill@1", "checkpoint.rename=kill@20", "checkpoint.rename=kill@21", "checkpoint.rename=kill@22"} {
		l := newContest(t, program, broker.Brokers()[0])
		// A busy machine saves fewer checkpoints. A checkpoint that becomes due while another is being written is
		// skipped.
		fewer := place == "checkpoint.rename=kill@21" || place == "checkpoint.rename=kill@22"
		l.failAt(t, place, fewer)
		l.finish(t)
		l.check(t, "one", reference)
	}
}

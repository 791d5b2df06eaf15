package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/app/served/kafka"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/internal/s3test"
	"blankout/stream"
)

// The crash tests run the real program with a broker in this process. They kill and restart the program until it has
// learned all records. Then its checkpoint must have the same bytes as the checkpoint of a run without kills.

// crashTopics are the topics that the learners of the crash tests read.
var crashTopics = map[string]struct {
	partitions int32
	records    int
}{"one": {1, 40_000}, "three": {3, 40_000}, "short": {1, 6_000}}

const crashRefused = 97 // one of this many records is invalid

// startBroker starts a broker in this process. The map topics has the number of partitions of each topic.
func startBroker(t testing.TB, topics map[string]int32) *stream.Embedded {
	t.Helper()
	broker := must.Get(stream.StartEmbedded(stream.EmbeddedConfig{Topics: topics}))(t)
	t.Cleanup(broker.Close)
	return broker
}

// crashBroker starts a broker with the given crashTopics.
func crashBroker(t *testing.T, topics ...string) *stream.Embedded {
	t.Helper()
	partitions := map[string]int32{}
	for _, name := range topics {
		partitions[name] = crashTopics[name].partitions
	}
	broker := startBroker(t, partitions)
	for _, name := range topics {
		must.Do(t, fillCrashTopic(t, broker.Brokers(), name, nil))
	}
	return broker
}

// fillCrashTopic writes the records of one of crashTopics. It calls pace, which may be nil, after every hundred
// acknowledged records.
func fillCrashTopic(t *testing.T, brokers []string, name string, pace func(written int)) error {
	c := stream.DefaultProducerConfig()
	c.Brokers, c.Topic, c.Compression = brokers, name, "lz4"
	p, err := stream.NewProducer(t.Context(), c)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range crashTopics[name].records {
		value := "{spoilt"
		if i%crashRefused != 5 {
			x, y := r.NormFloat64(), r.NormFloat64()
			label := x+0.3*r.NormFloat64() > 0
			value = fmt.Sprintf(`{"label":%q,"x":%.4f,"y":%.4f,"shop":"s%d","words":["w%d","w%d"]}`,
				strconv.FormatBool(label), x, y, r.IntN(50), r.IntN(2000), r.IntN(2000))
		}
		if err := p.Write(t.Context(), stream.Message{Key: strconv.AppendInt(nil, int64(i), 10), Value: []byte(value)}); err != nil {
			return errors.Join(err, p.Close())
		}
		if pace != nil && i%100 == 99 {
			if err := p.Flush(t.Context()); err != nil {
				return errors.Join(err, p.Close())
			}
			pace(i + 1)
		}
	}
	return errors.Join(p.Flush(t.Context()), p.Close())
}

// learner is a learner program of one topic, with its own directory.
type learner struct {
	program, dir string
	env          []string
	flags        []string
	numbers      string // numeric settings for failpoint.Number
}

// newLearner returns a learner that reads a topic to its end, with additional flags.
func newLearner(t *testing.T, program, broker, topic string, flags ...string) *learner {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf(`
[kafka]
brokers = [%q]
topics = [%q]
[record]
format = "json"
seed = 1 # else each run draws its own
[checkpoint]
directory = %q
keep = 2
events = 1000
[dead_letter]
file = %q
[http]
address = ""
`, broker, topic, filepath.Join(dir, "checkpoints"), filepath.Join(dir, "dead.jsonl"))
	must.Do(t, os.WriteFile(filepath.Join(dir, "blankout.toml"), []byte(config), 0o644))
	return &learner{program: program, dir: dir, flags: append([]string{"--until-end"}, flags...)}
}

func (l *learner) checkpoints() string { return filepath.Join(l.dir, "checkpoints") }

// start starts the program. Its log is appended to l.dir/log.
func (l *learner) start(t *testing.T) *exec.Cmd {
	t.Helper()
	log := must.Get(os.OpenFile(filepath.Join(l.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644))(t)
	defer log.Close()
	c := exec.Command(l.program, append([]string{"run", "-f", filepath.Join(l.dir, "blankout.toml")}, l.flags...)...)
	points := l.numbers
	for _, variable := range l.env {
		if more, ok := strings.CutPrefix(variable, "BLANKOUT_FAILPOINTS="); ok {
			points += "," + more
		}
	}
	c.Env = append(append(os.Environ(), l.env...), "BLANKOUT_FAILPOINTS="+points)
	c.Stdout, c.Stderr = log, log
	must.Do(t, c.Start())
	return c
}

// live runs the program, and calls end with the process after a delay to stop it. If end is nil, live waits until the
// program ends. It returns the error of the process.
func (l *learner) live(t *testing.T, delay time.Duration, end func(*os.Process) error) error {
	t.Helper()
	c := l.start(t)
	if end != nil {
		timer := time.AfterFunc(delay, func() { end(c.Process) })
		defer timer.Stop()
	}
	return c.Wait()
}

// stop sends SIGTERM to a process of the program, which must end with exit code 0.
func (l *learner) stop(t *testing.T, process *exec.Cmd) {
	t.Helper()
	terminate(t, process)
	err := process.Wait()
	must.Require(t, err == nil, "SIGTERM: %v\n%s", err, l.log())
}

// await waits up to a minute for a condition, described by what.
func (l *learner) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for began := time.Now(); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("not within a minute: %s\n%s", what, l.log()) // not must.Require, which would read the log each time
		}
	}
}

// terminate sends SIGTERM twice to a process, like timeout(1), which signals a process and its group. The second signal
// arrives while the program saves its state.
func terminate(t testing.TB, c *exec.Cmd) {
	t.Helper()
	must.Do(t, c.Process.Signal(syscall.SIGTERM))
	time.Sleep(2 * time.Millisecond)
	if err := c.Process.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		must.Do(t, err)
	}
}

// finish runs the program until it has learned all records.
func (l *learner) finish(t *testing.T) {
	t.Helper()
	err := l.live(t, 0, nil)
	must.Require(t, err == nil, "run to the end: %v\n%s", err, l.log())
}

// failAt runs the program with a failpoint such as "place=kill@1". The failpoint must be reached, unless optional is
// set.
func (l *learner) failAt(t *testing.T, point string, optional bool) {
	t.Helper()
	l.env = append(l.env, "BLANKOUT_FAILPOINTS="+point)
	err := l.live(t, 0, nil)
	l.env = l.env[:len(l.env)-1]
	place, what, _ := strings.Cut(point, "=")
	must.True(t, !strings.HasPrefix(what, "kill") || err != nil || optional, "%s: the place was not reached", point)
	must.True(t, !strings.HasPrefix(what, "error") || strings.Contains(l.log(), "failpoint "+place), "%s: the log does not report the failure: %v\n%s", point, err, l.log())
}

// killRounds kills new learners until there were this many kills. A learner that has learned all records is checked. took
// is the time of a run without kills.
func killRounds(t *testing.T, kills int, took time.Duration, learnerOf func(round int) *learner, check func(round int, l *learner)) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)) // different times in each run
	killed, resumed, rounds := 0, 0, 0
	for ; killed < kills || rounds < 2; rounds++ { // at least one of each kind
		l := learnerOf(rounds)
		k, after := l.killOften(t, func() time.Duration {
			u := r.Float64()
			return time.Duration(u * u * float64(took))
		})
		killed, resumed = killed+k, resumed+after
		check(rounds, l)
	}
	t.Logf("%d kills in %d runs to the end, %d of them after the first checkpoint; a run left alone takes %v", killed, rounds, resumed, took.Round(time.Millisecond))
}

// killOften kills the program after random delays until it has learned all records. It returns the number of kills, and
// the number of kills after which a checkpoint existed.
func (l *learner) killOften(t *testing.T, delay func() time.Duration) (killed, resumed int) {
	t.Helper()
	for {
		err := l.live(t, delay(), (*os.Process).Kill)
		switch exit := (*exec.ExitError)(nil); {
		case err == nil:
			return killed, resumed
		case errors.As(err, &exit) && exit.ExitCode() == -1 || runtime.GOOS == "windows":
			killed++
			if names, _ := checkpoint.List(l.checkpoints()); len(names) > 0 {
				resumed++
			}
		default:
			t.Fatalf("ended by itself: %v\n%s", err, l.log())
		}
	}
}

func (l *learner) log() string {
	text, _ := os.ReadFile(filepath.Join(l.dir, "log"))
	return string(text)
}

// state returns the bytes, the offsets and the number of events of the newest checkpoint.
func (l *learner) state(t *testing.T) ([]byte, event.Offsets, uint64) {
	t.Helper()
	names, err := checkpoint.List(l.checkpoints())
	must.Require(t, err == nil && len(names) != 0, "checkpoints %v: %v\n%s", names, err, l.log())
	data := must.Get(os.ReadFile(filepath.Join(l.checkpoints(), names[0])))(t)
	file := must.Get(checkpoint.Decode(data))(t)
	m := must.Get(served.Options{}.FromFile(file))(t)
	return data, m.Offsets, m.Events
}

// check compares a finished learner with reference, which was not killed. If there is one partition, the states must
// have equal bytes. If there are several partitions, the counts of records must be equal. No dead letter may be
// missing, but dead letters may be repeated.
func (l *learner) check(t *testing.T, topic string, reference *learner) {
	t.Helper()
	want, wantOffsets, wantEvents := reference.state(t)
	got, offsets, events := l.state(t)
	must.Require(t, slices.Equal(offsets, wantOffsets) && events == wantEvents,
		"%s: counted %+v and learned %d\nwant %+v and %d\n%s", topic, offsets, events, wantOffsets, wantEvents, l.log())
	must.Require(t, crashTopics[topic].partitions != 1 || bytes.Equal(got, want),
		"%s: the state differs from the undisturbed one in %s\n%s", topic, differingBlocks(got, want), l.log())
	l.sameDeadLetters(t, reference)
}

func differingBlocks(a, b []byte) (names []string) {
	fa, errA := checkpoint.Decode(a)
	fb, errB := checkpoint.Decode(b)
	if errA != nil || errB != nil {
		return []string{fmt.Sprint(errA, errB)}
	}
	for _, block := range fa.Blocks {
		if other, err := fb.Block(block.Name); err != nil || !bytes.Equal(block.Data, other) {
			names = append(names, block.Name)
		}
	}
	return names
}

// sameDeadLetters ends the test unless both learners stored dead letters of the same records.
func (l *learner) sameDeadLetters(t *testing.T, reference *learner) {
	t.Helper()
	got, want := l.deadLetters(t), reference.deadLetters(t)
	must.Require(t, slices.Equal(got, want), "%d different dead letters, want %d", len(got), len(want))
}

// deadLetters returns the positions of the records whose dead letters are stored, without duplicates.
func (l *learner) deadLetters(t *testing.T) (places []string) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(l.dir, "dead.jsonl")))(t)
	for line := range bytes.Lines(text) {
		var d struct {
			Topic     string
			Partition int32
			Offset    int64
			Value     []byte
		}
		if err := json.Unmarshal(line, &d); err != nil {
			continue // a line that a kill has cut short
		}
		must.Require(t, string(d.Value) == "{spoilt", "dead letter %s", line)
		places = append(places, fmt.Sprint(d.Topic, d.Partition, d.Offset))
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// expect checks the results of a run without kills.
func (l *learner) expect(t *testing.T, topic string) {
	t.Helper()
	_, offsets, events := l.state(t)
	records := uint64(0)
	for _, p := range offsets {
		records += p.Records
	}
	want := crashTopics[topic]
	refused := (want.records-6)/crashRefused + 1
	must.Require(t, len(offsets) == int(want.partitions) && records == uint64(want.records) && events == uint64(want.records-refused), "%s: %+v, %d events", topic, offsets, events)
	n := len(l.deadLetters(t))
	must.Require(t, n == refused, "%s: %d dead letters", topic, n)
}

// countOf returns the number in an environment variable, or otherwise if the variable is not set.
func countOf(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	must.Require(t, err == nil && n >= 1, "%s=%q: want a number", variable, text)
	return n
}

// crashKills returns BLANKOUT_CRASH_KILLS, the total number of kills.
func crashKills(t *testing.T) int {
	if longtest.Asked() {
		return countOf(t, "BLANKOUT_CRASH_KILLS", 16)
	}
	return countOf(t, "BLANKOUT_CRASH_KILLS", 4)
}

func TestCrash(t *testing.T) {
	t.Parallel()
	kills := crashKills(t)
	program := buildProgram(t)
	topics := must.Either(longtest.Asked(), []string{"one", "three"}, []string{"short"})
	broker := crashBroker(t, topics...)
	for _, topic := range topics {
		t.Run(topic, func(t *testing.T) {
			reference := newLearner(t, program, broker.Brokers()[0], topic)
			reference.finish(t)
			reference.expect(t, topic)
			// The kills should happen within the duration of the fastest of two runs.
			took := time.Hour
			for range 2 {
				l := newLearner(t, program, broker.Brokers()[0], topic)
				begin := time.Now()
				l.finish(t)
				took = min(took, time.Since(begin))
				l.check(t, topic, reference)
			}

			killRounds(t, (kills+1)/2, took, func(int) *learner { return newLearner(t, program, broker.Brokers()[0], topic) },
				func(_ int, l *learner) { l.check(t, topic, reference) })
		})
	}
	t.Run("asked to stop", func(t *testing.T) { askToStop(t, program, broker) })
}

// TestCrashAtFailpoints kills the program at every access to a file or connection. It also makes each access fail. The
// program must recover after a restart.
func TestCrashAtFailpoints(t *testing.T) {
	longtest.Only(t)
	program := buildProgram(t, "-tags=failpoint")
	broker := crashBroker(t, "short")
	reference := newLearner(t, program, broker.Brokers()[0], "short")
	reference.finish(t)
	places := []string{"checkpoint.mkdir", "checkpoint.create", "checkpoint.write", "checkpoint.sync", "checkpoint.rename",
		"checkpoint.syncdir", "checkpoint.remove", "run.deadletters", "run.commit"}
	arrivals := []string{"kill@1", "error@2"}
	if os.Getenv("BLANKOUT_CRASH_KILLS") != "" {
		arrivals = []string{"kill@1", "kill@2", "kill@4", "error@1", "error@2"}
	}
	for _, place := range places {
		for _, what := range arrivals {
			if place == "checkpoint.mkdir" && !strings.HasSuffix(what, "1") {
				continue // created only once
			}
			l := newLearner(t, program, broker.Brokers()[0], "short")
			if place == "checkpoint.remove" { // only the first and the last checkpoint certainly exist, and one of them is removed
				l.flags = append(l.flags, "--set=checkpoint.keep=1")
				what = what[:len(what)-1] + "1"
			}
			l.failAt(t, place+"="+what, what != "kill@1")
			l.finish(t)
			l.check(t, "short", reference)
		}
	}
}

func TestCrashBeside(t *testing.T) {
	longtest.Only(t)
	program := buildProgram(t, "-tags=failpoint")
	broker := crashBroker(t, "short", "three")
	t.Run("unlabeled topic", func(t *testing.T) { crashWithUnlabeled(t, program, broker) })
	t.Run("snapshots", func(t *testing.T) { crashPublishing(t, program, broker) })
	t.Run("refresh", func(t *testing.T) { crashRefreshing(t, program, broker) })
}

// crashPublishing interrupts the publication of models at several places. Afterwards the topic and the file must
// contain a complete model that is not older than the previous model.
func crashPublishing(t *testing.T, program string, broker *stream.Embedded) {
	reference := newLearner(t, program, broker.Brokers()[0], "short")
	reference.finish(t)
	l := newLearner(t, program, broker.Brokers()[0], "short")
	file := filepath.Join(l.dir, "model.blankout")
	l.flags = append(l.flags, "--set=snapshot.topic=published", "--set=kafka.create_topics=true", "--set=snapshot.interval=10ms",
		"--set=http.publish_interval=10ms", "--set=snapshot.file="+file)
	places := map[string]string{"topic": "kafka://" + broker.Brokers()[0] + "/published", "file": file}
	versions := map[string]uint64{}
	look := func(what string) (events uint64) {
		for place, where := range places {
			m, err := served.Open(t.Context(), where, served.Options{Schemes: map[string]served.Opener{"kafka": kafka.Opener(stream.DefaultConnectConfig())}})
			switch {
			case err == nil && m.Version >= versions[place]:
				versions[place], events = m.Version, m.Events
			case err == nil:
				t.Errorf("%s: the %s went back from version %d to %d", what, place, versions[place], m.Version)
			case versions[place] > 0 || !strings.Contains(err.Error(), "no complete snapshot yet") && !errors.Is(err, os.ErrNotExist):
				t.Errorf("%s: the %s: %v", what, place, err)
			}
		}
		return events
	}
	for _, what := range []string{"snapshot.piece=kill@3", "snapshot.manifest=kill@1", "snapshot.manifest=kill@3", "snapshot.prune=kill@1",
		"snapshot.piece=kill@2", "checkpoint.rename=kill@2", "checkpoint.write=kill@3", "snapshot.manifest=error@1"} {
		l.failAt(t, what, true) // the program may have read the topic to its end before
		look(what)
	}
	must.Equal(t, strings.Count(l.log(), "failpoint snapshot.manifest"), 1, "reported failures")
	l.finish(t)
	l.check(t, "short", reference)
	_, _, events := l.state(t)
	got := look("at the end")
	must.True(t, got == events && versions["topic"] != 0 && versions["topic"] == versions["file"], "published %d of %d events, versions %v", got, events, versions)
}

// crashRefreshing kills the program during an IRLS step, between two outputs. The checkpoint must hold the state before
// the step.
func crashRefreshing(t *testing.T, program string, broker *stream.Embedded) {
	refreshing := func() *learner {
		return newLearner(t, program, broker.Brokers()[0], "short", "--set=learner.irls_batch=100", "--set=learner.irls_window=200")
	}
	reference := refreshing()
	reference.finish(t)
	l := refreshing()
	for _, what := range []string{"learn.refresh=kill@3", "learn.refresh=kill@92", "learn.refresh=kill@59"} {
		l.failAt(t, what, false)
	}
	l.finish(t)
	l.check(t, "short", reference)
}

// crashWithUnlabeled checks that a checkpoint includes the offsets of an unlabeled topic.
func crashWithUnlabeled(t *testing.T, program string, broker *stream.Embedded) {
	both := func() *learner {
		return newLearner(t, program, broker.Brokers()[0], "short", "--set=kafka.unlabeled_topics=three", "--set=learner.unlabeled_weight=0.3")
	}
	reference := both()
	reference.finish(t)
	_, want, wantEvents := reference.state(t)
	must.Require(t, len(want) == 4 && wantEvents == 46_000-uint64(len(reference.deadLetters(t))), "%+v, %d events", want, wantEvents)
	l := both()
	for _, what := range []string{"checkpoint.rename=kill@3", "checkpoint.write=kill@4", "run.commit=kill@5"} {
		l.failAt(t, what, false)
	}
	l.finish(t)
	_, got, events := l.state(t)
	must.True(t, slices.Equal(got, want) && events == wantEvents, "counted %+v and learned %d\nwant %+v and %d", got, events, want, wantEvents)
	l.sameDeadLetters(t, reference)
}

// askToStop checks that SIGTERM ends the program with exit code 0, and that no event is learned again after a restart.
func askToStop(t *testing.T, program string, broker *stream.Embedded) {
	longtest.Only(t)
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no SIGTERM")
	}
	reference := newLearner(t, program, broker.Brokers()[0], "one")
	begin := time.Now()
	reference.finish(t)
	took := time.Since(begin)

	l := newLearner(t, program, broker.Brokers()[0], "one")
	for i := range 5 {
		err := l.live(t, took*time.Duration(i+1)/8, func(p *os.Process) error { return p.Signal(syscall.SIGTERM) })
		must.True(t, err == nil, "SIGTERM: %v\n%s", err, l.log())
	}
	l.finish(t)
	l.check(t, "one", reference)

	// A run without an end must also stop on SIGTERM. It must keep the directory locked until it has stopped.
	l = newLearner(t, program, broker.Brokers()[0], "one")
	l.flags = nil
	first := l.start(t)
	ended := make(chan error, 1)
	go func() { ended <- first.Wait() }()
	defer first.Process.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for names := []string(nil); len(names) == 0; names, _ = checkpoint.List(l.checkpoints()) {
		select {
		case err := <-ended:
			t.Fatalf("ended by itself: %v\n%s", err, l.log())
		case <-ctx.Done():
			t.Fatalf("no checkpoint\n%s", l.log())
		case <-time.After(5 * time.Millisecond):
		}
	}
	second := exec.Command(program, "run", "-f", filepath.Join(l.dir, "blankout.toml"))
	out, err := second.CombinedOutput()
	must.True(t, err != nil && bytes.Contains(out, []byte(l.checkpoints()+" is in use by another learner (process "+strconv.Itoa(first.Process.Pid)+" since ")), "a second learner: %v\n%s", err, out)
	must.Do(t, first.Process.Signal(syscall.SIGTERM))
	err = <-ended
	must.True(t, err == nil, "SIGTERM: %v\n%s", err, l.log())
	l.flags = []string{"--until-end"}
	l.finish(t)
	l.check(t, "one", reference)
}

// TestCrashWithStore kills the program at every access to an object store, makes accesses fail, and makes the store
// unreachable. The program must recover after a restart. The checkpoints in the store must equal checkpoints on disk.
func TestCrashWithStore(t *testing.T) {
	longtest.Only(t)
	program := buildProgram(t, "-tags=failpoint")
	broker := crashBroker(t, "short")
	reference := newLearner(t, program, broker.Brokers()[0], "short")
	reference.finish(t)
	for _, point := range []string{
		"checkpoint.create=kill@1", "checkpoint.create=kill@3", "checkpoint.create=error@3",
		"checkpoint.write=kill@4", "checkpoint.rename=kill@1", "checkpoint.rename=kill@3", "checkpoint.rename=error@3",
		"checkpoint.written=kill@1", "checkpoint.written=kill@3", "checkpoint.written=error@3",
		"checkpoint.remove=kill@1", "checkpoint.remove=error@1", "run.commit=kill@1",
	} {
		store := s3test.Start()
		t.Cleanup(store.Close)
		l := newLearner(t, program, broker.Brokers()[0], "short", "--set=checkpoint.directory=s3://models/crash", "--set=s3.region="+s3test.Region, "--set=s3.endpoint="+store.URL, "--set=checkpoint.keep=1")
		keys := []string{"AWS_ACCESS_KEY_ID=" + s3test.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s3test.SecretKey}
		l.env = keys
		l.failAt(t, point, false)
		l.finish(t)
		must.True(t, !strings.Contains(point, "kill") || strings.Contains(l.log(), "another learner owned the checkpoints") || point == "checkpoint.create=kill@1",
			"%s: nobody was told of the learner that was killed\n%s", point, l.log())
		must.Do(t, os.MkdirAll(l.checkpoints(), 0o700))
		for _, name := range store.Names("/models/crash/checkpoint-") {
			name = "checkpoint-" + name
			must.Do(t, os.WriteFile(filepath.Join(l.checkpoints(), name), store.Get("/models/crash/"+name), 0o600))
		}
		l.check(t, "short", reference)
	}
}

// This file has the crash tests of delayed labels. Events and labels are in two partitions each, and their learner is
// killed. Its checkpoint must have the same bytes as the checkpoint of a learner that was not killed. The bytes are
// equal even for several partitions, because the order of events and labels depends only on the logs. Learners for
// classification and for regression alternate.

// joinBroker starts a broker with a topic of clicks and a topic of answers (their labels). Some answers are late,
// repeated, early, missing or invalid.
func joinBroker(t *testing.T, events int) *stream.Embedded {
	t.Helper()
	broker := startBroker(t, map[string]int32{"clicks": 2, "answers": 2})
	fillJoin(t, broker.Brokers(), events)
	return broker
}

// fillJoin writes clicks and answers to their topics.
func fillJoin(t *testing.T, brokers []string, events int) {
	t.Helper()
	type message struct {
		topic string
		stream.Message
	}
	var all []message
	r := rand.New(rand.NewPCG(3, 4))
	for i := range events {
		x, y := r.NormFloat64(), r.NormFloat64()
		id, at := strconv.AppendInt([]byte("click-"), int64(i), 10), int64(1_700_000_000_000+100*i)
		value := fmt.Sprintf(`{"x":%.4f,"y":%.4f,"shop":"s%d","words":["w%d"]}`, x, y, r.IntN(50), r.IntN(2000))
		if i%crashRefused == 5 {
			value = "{spoilt"
		}
		all = append(all, message{"clicks", stream.Message{Key: id, Value: []byte(value), Time: at}})
		for n := range []int{0, 1, 1, 1, 1, 2}[r.IntN(6)] {
			label, amount := false, 10+3*x
			if x+0.3*r.NormFloat64() > 0 { // a repeated answer may differ
				label, amount = true, amount+2
			}
			delay := int64(r.ExpFloat64()*20_000) - 500 + int64(n)*3000
			all = append(all, message{"answers", stream.Message{Key: id, Value: fmt.Appendf(nil, `{"label":"%t","amount":%.4f}`, label, amount), Time: at + delay}})
		}
	}
	slices.SortStableFunc(all, func(a, b message) int { return int(a.Time - b.Time) })
	for i, odd := len(all)/2, 0; odd < 3; i++ { // timestamps a little less wrong than the broker allows
		if all[i].topic == "answers" || odd == 1 {
			all[i].Time += (59 * time.Minute).Milliseconds()
			odd, i = odd+1, i+100
		}
	}
	for _, topic := range []string{"clicks", "answers"} {
		c := stream.DefaultProducerConfig()
		c.Brokers, c.Topic = brokers, topic
		p := must.Get(stream.NewProducer(t.Context(), c))(t)
		for _, m := range all {
			if m.topic == topic {
				must.Do(t, p.Write(t.Context(), m.Message))
			}
		}
		must.Do(t, errors.Join(p.Flush(t.Context()), p.Close()))
	}
}

// joinKinds has two kinds of learners of clicks and answers. For each kind it has the loss, and the field of an answer
// that holds the label.
var joinKinds = []struct{ loss, label string }{{"logistic", "label"}, {"squared", "amount"}}

// newJoiner returns a learner of one of joinKinds.
func newJoiner(t *testing.T, program, broker string, kind int) *learner {
	l := newLearner(t, program, broker, "clicks", "--set=learner.loss="+joinKinds[kind].loss, "--set=labels.label="+joinKinds[kind].label,
		"--set=labels.topics=answers", "--set=labels.max_delay=50s", "--set=labels.idle_timeout=0s", "--set=labels.pending_memory=16777216")
	l.flags = append(l.flags, "--set=labels.directory="+filepath.Join(l.dir, "waiting"))
	return l
}

func (l *learner) checkJoined(t *testing.T, reference *learner) {
	t.Helper()
	want, wantOffsets, _ := reference.state(t)
	got, offsets, _ := l.state(t)
	must.Require(t, slices.Equal(offsets, wantOffsets), "counted %+v, want %+v\n%s", offsets, wantOffsets, l.log())
	must.Require(t, bytes.Equal(got, want), "the state differs from the undisturbed one in %s\n%s", differingBlocks(got, want), l.log())
	l.sameDeadLetters(t, reference)
}

func TestCrashJoin(t *testing.T) {
	t.Parallel()
	kills, events := crashKills(t), must.Either(longtest.Asked(), 12_000, 4_000)
	crashJoin(t, buildProgram(t), joinBroker(t, events).Brokers()[0], (kills+1)/2)
}

// crashJoin kills learners of clicks and answers the given number of times.
func crashJoin(t *testing.T, program, broker string, kills int) {
	t.Helper()
	reference := make([]*learner, len(joinKinds))
	took := time.Hour
	for kind := range joinKinds {
		reference[kind] = newJoiner(t, program, broker, kind)
		reference[kind].finish(t)
		state, _, _ := reference[kind].state(t)
		for _, block := range []string{`"matched":`, `"timed_out":`, `"late":`, `"early":`, `"corrected":`, `"repeated":`, `"out_of_order":`} {
			i := bytes.Index(state, []byte(block))
			must.True(t, i >= 0 && state[i+len(block)] != '0', "%s: the records of the test leave out %s", joinKinds[kind].loss, block)
		}
		l := newJoiner(t, program, broker, kind)
		begin := time.Now()
		l.finish(t)
		took = min(took, time.Since(begin))
		l.checkJoined(t, reference[kind])
	}
	killRounds(t, kills, took, func(round int) *learner { return newJoiner(t, program, broker, round%len(reference)) },
		func(round int, l *learner) { l.checkJoined(t, reference[round%len(reference)]) })
}

// TestCrashJoinAtFailpoints kills the program where it stores or removes waiting events. It also makes these operations
// fail.
func TestCrashJoinAtFailpoints(t *testing.T) {
	longtest.Only(t)
	program := buildProgram(t, "-tags=failpoint")
	broker := joinBroker(t, 6_000).Brokers()[0]
	reference := make([]*learner, len(joinKinds))
	for kind := range joinKinds {
		reference[kind] = newJoiner(t, program, broker, kind)
		reference[kind].finish(t)
	}
	kind := 0
	for _, place := range []string{"labels.put", "labels.mark", "labels.marked", "labels.letgo", "labels.goback", "checkpoint.write", "checkpoint.rename", "checkpoint.remove", "run.deadletters"} {
		for _, what := range []string{"kill@1", "kill@3", "error@2"} {
			if place == "labels.goback" && what != "kill@1" {
				continue // this happens once per process
			}
			kind = (kind + 1) % len(reference)
			l := newJoiner(t, program, broker, kind)
			if place == "labels.goback" {
				l.failAt(t, "checkpoint.rename=kill@3", true)
			}
			l.failAt(t, place+"="+what, what != "kill@1")
			l.finish(t)
			l.checkJoined(t, reference[kind])
		}
	}
}

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

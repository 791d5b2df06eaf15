package tests

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/stream"
)

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
	if got, want := l.deadLetters(t), reference.deadLetters(t); !slices.Equal(got, want) {
		t.Fatalf("%d different dead letters, want %d", len(got), len(want))
	}
}

func TestCrashJoin(t *testing.T) {
	t.Parallel()
	kills, events := crashKills(t), 4_000
	if longtest.Asked() {
		events = 12_000
	}
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

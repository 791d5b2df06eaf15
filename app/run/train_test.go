package run_test

import (
	"bytes"
	"math"
	"testing"

	"blankout/app/run"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/online"
)

// TestTraining checks that a Training ends in the same state as separate calls for each pass. The evaluation must be
// the same from memory and from the source, with one thread and with three.
func TestTraining(t *testing.T) {
	const n = 650
	c := learnerConfig()
	c.Noise = "dropout:0.3"
	learner := func() *online.Learner {
		return must.Get(online.New(c, event.NewSchema(18, nil, 2)))(t)
	}
	state := func(l *online.Learner) []byte {
		blocks := must.Get(l.Snapshot().Blocks())(t)
		return bytes.Join([][]byte{blocks[0].Data, blocks[1].Data}, nil)
	}
	slow := learner()
	for range 2 {
		s := newStream(slow.Schema(), nil, n, 1)
		for i := range n {
			e := s.record(i)
			slow.Learn(&e, nil)
		}
		slow.EndPass()
	}
	wantJ, wantError, _, err := slow.Evaluate(t.Context(), newStream(slow.Schema(), nil, n, 1), 1)
	must.Do(t, err)
	for _, memory := range []int64{0, 50_000, 1 << 30} {
		for _, threads := range []int{1, 3} {
			l, opened := learner(), 0
			training := run.Training{Learner: l, Schema: l.Schema(), Passes: 2, Memory: memory, Refused: run.PolicyFail, Threads: threads, Evaluate: true,
				Open: func() (event.Source, error) {
					opened++
					return newStream(l.Schema(), nil, n, 1), nil
				}}
			got := must.Get(training.Run(t.Context()))(t)
			must.Equal(t, opened, map[bool]int{true: 1, false: 3}[memory == 1<<30], "memory", memory, "opened")
			must.True(t, got.Passes == 2 && got.Learned+got.Unlabeled == n && got.Progressive.Weight < slow.Report().Total.Weight,
				"%d passes, %d learned, progressive %+v", got.Passes, got.Learned, got.Progressive)
			want := l.Report().Noise
			must.True(t, got.Noise.String() == want.String() && loss.LevelOf(want) != 0, "noise %v, want %v", got.Noise, want)
			l.EndPass()
			must.True(t, (got.Objective == wantJ || math.Abs(got.Objective-wantJ) <= 1e-9*wantJ) && got.Error == wantError && bytes.Equal(state(l), state(slow)),
				"memory %d, %d threads: J = %v, error %v; by hand %v, %v", memory, threads, got.Objective, got.Error, wantJ, wantError)
		}
	}
}

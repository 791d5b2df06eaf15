package rare

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/must"
)

const unseen = -30.

// stream changes Classes and the scores of outputs as a learner would.
type stream struct {
	Classes
	r       *rand.Rand
	outputs []float64
	events  []uint64
}

// begin returns a stream of known classes. Every third class has had Ripe events. The other classes share an output.
func begin(seed uint64, known int) *stream {
	s := &stream{r: rand.New(rand.NewPCG(seed, 1))}
	for class := range known {
		s.events = append(s.events, uint64(class%SeparateAfter))
		if class%3 == 0 {
			s.events[class] += SeparateAfter
		}
	}
	for range s.Merge(known, known, s.few, s.of) {
		s.outputs = append(s.outputs, 4*s.r.Float64()-2)
	}
	return s
}

func (s *stream) of(class int) uint64 { return s.events[class] }

func (s *stream) few(class int) bool {
	return class >= AlwaysSeparate && class < len(s.events) && s.events[class] < SeparateAfter
}

func (s *stream) scores() []float64 { return s.Expand(s.outputs, unseen, nil) }

// next makes a random change to Classes. It returns the number of scores that must not change.
func (s *stream) next() (same int) {
	same = len(s.output)
	switch class := s.r.IntN(same); s.r.IntN(4) {
	case 0:
		shift := s.Add(len(s.outputs))
		if s.Shared() == len(s.outputs) {
			s.outputs = append(s.outputs, s.r.Float64())
		}
		s.outputs[s.Shared()] += shift
	case 1:
		if s.r.IntN(20) == 0 { // some classes lose their separate outputs
			same = 0
			few := func(class int) bool { return class >= AlwaysSeparate && class%5 == 0 }
			merged := s.Merge(1, 1, few, func(int) uint64 { return 3 })
			outputs := must.Map(merged, func(list []int) float64 { return s.outputs[list[0]] })
			s.outputs = outputs
			break
		}
		if !s.IsRare(class) {
			break
		}
		if s.Rare() > 1 {
			s.outputs = append(s.outputs, s.outputs[s.Shared()])
		}
		own, shared := s.Promote(class, len(s.outputs)-1)
		s.outputs[s.Output(class)] += own
		s.outputs[s.Shared()] += shared
	default:
		s.Take(class)
		same = 0
	}
	return same
}

// TestClasses checks properties after random changes. The fractions of the rare classes must sum to 1, and each other
// class must have a separate output. New classes and separate outputs must not change the scores of other classes.
func TestClasses(t *testing.T) {
	for seed := range uint64(20) {
		s := begin(seed, 12+int(seed))
		for step := range 300 {
			before := s.scores()
			same := s.next()
			after := s.scores()
			must.Near(t, after[:same], before[:same], 1e-13, "seed", seed, "step", step)
			sum, of := 0.0, map[int]int{}
			for class, o := range s.Outputs() {
				of[o]++
				must.Require(t, s.Output(class) == o && after[class] == s.outputs[o]+s.offset[class] && s.IsRare(class) != (s.Class(o) == class),
					"seed %d, step %d: class %d, rare %v, has output %d of class %d", seed, step, class, s.IsRare(class), o, s.Class(o))
				if s.IsRare(class) {
					sum += math.Exp(s.offset[class])
				}
			}
			must.Require(t, len(of) == len(s.outputs) && s.Count() == len(s.outputs) && (s.Rare() <= 0 || math.Abs(sum-1) <= 1e-12 && of[s.Shared()] == s.Rare()),
				"seed %d, step %d: fractions sum to %v, outputs %v", seed, step, sum, of)
		}
	}
}

// TestMerge checks that frequent classes and the first classes keep their outputs, and that all other classes share the
// last output.
func TestMerge(t *testing.T) {
	events := []uint64{0, 1, 2, 0, 0, 0, 0, 0, 0, 3, SeparateAfter - 1, SeparateAfter, 0, 40, 1}
	var c Classes
	must.True(t, !c.On() && c.Output(20) == 20 && c.Class(20) == 20 && c.Scores(3) == 3 && c.Outputs() == nil && slices.Equal(c.Expand([]float64{1, 2}, unseen, nil), []float64{1, 2}),
		"the zero value changes outputs")
	few := func(class int) bool { return class >= AlwaysSeparate && events[class] < SeparateAfter }
	from := c.Merge(len(events), 17, few, func(class int) uint64 { return events[class] })
	must.True(t, len(from) == 13 && slices.Equal(from[10], []int{11}) && slices.Equal(from[11], []int{13}) && slices.Equal(from[12], []int{10, 12, 14}) && c.Shared() == 12 && c.Rare() == 3,
		"outputs of %v", from)
	want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 12, 11, 12, -1, -1}
	must.True(t, slices.Equal(c.Outputs(), want) && c.Scores(13) == 17, "outputs %v, want %v", c.Outputs(), want)
	got := c.Expand(make([]float64, 13), unseen, nil)
	// The weight of a rare class is its number of events plus one.
	for class, of := range map[int]float64{10: 8, 12: 1, 14: 2} {
		want := math.Log(of / 11)
		must.True(t, math.Abs(got[class]-want) <= 1e-15, "class %d scores %v, want %v", class, got[class], want)
	}
	again := c
	again.output, again.weight = slices.Clone(c.output), slices.Clone(c.weight)
	again.Take(12)
	from = again.Merge(1, 1, func(class int) bool { return class == 13 }, func(int) uint64 { return 3 })
	must.True(t, len(from) == 12 && slices.Equal(from[11], []int{12, 11}) &&
		again.Rare() == 4 && again.Scores(12) == 17 && again.weight[13] == 4 && again.weight[12] >= 1.9 && again.Output(11) == 10, "once more %v, %+v", from, again)
	must.True(t, got[11] == 0 && got[15] == unseen && got[16] == unseen && c.Output(15) == -1 && c.Output(-1) == -1, "scores %v", got)
}

// TestTake checks that an event increases the fraction of its class. A recent event must increase the fraction more
// than an old event.
func TestTake(t *testing.T) {
	var c Classes
	c.Merge(12, 12, func(class int) bool { return class >= AlwaysSeparate }, func(int) uint64 { return 0 })
	must.Require(t, c.IsRare(10) && c.IsRare(11) && !c.IsRare(9), "who is rare?")
	for range 6 {
		c.Take(10)
	}
	for range 6 {
		c.Take(11)
	}
	c.Take(3) // 3 is not rare, so this has no effect
	a, b := c.offset[10], c.offset[11]
	must.True(t, a < b && a > b-0.5, "fractions exp %v of six events, exp %v of six later ones", a, b)
}

// TestInvalidStates checks that inconsistent states are rejected.
func TestInvalidStates(t *testing.T) {
	s := begin(1, 14)
	rare := slices.IndexFunc(s.weight, func(w float64) bool { return w > 0 })
	for name, spoil := range map[string]func(*Classes){
		"no class":                    func(c *Classes) { c.output, c.weight = nil, nil },
		"two classes of an output":    func(c *Classes) { c.output[1] = 0 },
		"a negative output":           func(c *Classes) { c.output[1] = -1 },
		"an output of nobody":         func(c *Classes) { c.output[1] = 13 },
		"a rare class of another one": func(c *Classes) { c.output[rare] = 1 },
		"a class alone on the shared": func(c *Classes) { c.weight[rare+1], c.output[rare+1] = 0, c.shared },
		"a small weight":              func(c *Classes) { c.weight[rare] = 0.5 },
		"a large output":              func(c *Classes) { c.output[1] = 1 << 40 },
		"many scores":                 func(c *Classes) { c.shown = 1 << 30 },
	} {
		c, to := s.Classes, &coder.Coder{}
		c.output, c.weight = slices.Clone(c.output), slices.Clone(c.weight)
		spoil(&c)
		for _, n := range []uint64{c.Changed, uint64(c.shown), uint64(c.shared), uint64(len(c.output))} {
			to.Uint(&n)
		}
		for i := range c.output {
			to.Int(&c.output[i])
			to.Float(&c.weight[i])
		}
		read := coder.Read(to.Out)
		new(Classes).State(read)
		must.True(t, !read.Done(), "%s is read", name)
	}
}

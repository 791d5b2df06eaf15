package online

// This file decides which output learns which class, and for what there is room: classes of few events share an output
// once outputs of their own would take too much, see package young.

import (
	"fmt"
	"strconv"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/memory"
	"blankout/online/rows"
	"blankout/online/watch"
	"blankout/online/young"
)

// outputs says which output learns each class.
type outputs struct {
	young   young.Classes
	bytes   int64                  // that the outputs of young classes may take before these share one
	events  func(class int) uint64 // labeled events of a class
	most    int                    // classes with an output of their own: Schema.MaxClasses
	width   func(outputs int) int  // of a row
	memory  memory.Bound
	several bool // labels are classes
}

// youngBytes is how many bytes the outputs of young classes may take before these classes share one. Half of it is then
// for those of the most events.
const youngBytes = 128 << 20

func (l *Learner) newOutputs() outputs {
	return outputs{
		bytes: youngBytes, most: l.encoder.Schema().MaxClasses, memory: memory.Bound(l.config.MaxMemory), several: l.targets == nil,
		width: l.set.width,
		events: func(class int) uint64 {
			if n := l.monitors.Measures.Classes; class < len(n) {
				return n[class]
			}
			return 0
		},
	}
}

// after returns how many outputs there will be after an event of a class, of which there are k now and so many columns
// then, at most, and whether young classes begin to share one with it. Full says that there is no other way to have that many.
func (o *outputs) after(label, k, columns int) (outputs int, begins, full bool) {
	switch {
	case o.young.On():
		if label >= o.young.Known() && o.young.Young() == 0 || o.promotes(label, k, columns) && o.young.Young() > 1 {
			return k + 1, false, false
		}
		return k, false, false
	case label >= max(k, 2):
		outputs = label + 1
	default:
		outputs = k
	}
	if label < 0 || outputs <= young.Own || !o.several {
		return outputs, false, false
	}
	count := o.alone(outputs)
	if full = count > 0 && (outputs > o.most || outputs > k && !o.fits(outputs, columns)); full {
		return outputs - count + 2, true, true
	}
	return outputs, o.cost(columns, count-1) > o.bytes, false
}

// isYoung says whether a class has had too few events for an output of its own where room is short.
func (o *outputs) isYoung(class int) bool { return class >= young.Own && o.events(class) < young.Ripe }

// alone returns how many of the first classes are young and share no output.
func (o *outputs) alone(classes int) (n int) {
	for class := young.Own; class < classes; class++ {
		if o.isYoung(class) && !o.young.IsYoung(class) {
			n++
		}
	}
	return n
}

// cost returns how many bytes so many outputs take of so many columns.
func (o *outputs) cost(columns, outputs int) int64 {
	const many = 64 // rows are whole lines
	return memory.Bytes(columns, outputs*(o.width(2*many)-o.width(many))/many)
}

// fits says whether the rows of so many outputs fit the memory.
func (o *outputs) fits(outputs, columns int) bool { return o.memory.Fits(columns, o.width(outputs)) }

// promotes says whether an event gives its class, which shares an output, one of its own: the eighth if there is room
// for it at all, the second if young classes then take half of what they may.
func (o *outputs) promotes(label, k, columns int) bool {
	if label < 0 || !o.young.IsYoung(label) {
		return false
	}
	events, alone := 1+o.events(label), o.alone(o.young.Known())
	own := k - 1 // the others are those of single classes
	switch {
	case events < 2 || o.young.Young() > 1 && !o.fits(k+1, columns):
		return false
	case events < young.Ripe:
		return own < o.most && 2*o.cost(columns, alone+1) <= o.bytes
	}
	return own < o.most || alone > 0
}

// merge has young classes share an output, but for at most so many of the most events: known classes have come, and k
// outputs are there. It returns for each output from now on those whose mean it begins as.
func (o *outputs) merge(known, k, but int) (from [][]int) {
	least := uint64(young.Ripe) // which have fewer events share
	var count [young.Ripe]int
	for class := young.Own; class < known; class++ {
		if o.isYoung(class) && !o.young.IsYoung(class) {
			count[o.events(class)]++
		}
	}
	for ; least > 1 && count[least-1] <= but; least-- {
		but -= count[least-1]
	}
	return o.young.Merge(known, k, func(class int) bool { return class >= young.Own && o.events(class) < least }, o.events)
}

// meet takes up the class of an event, before it is scored: its weight, and which output learns it.
func (l *Learner) meet(e *event.Example) {
	label := e.Label
	for label >= len(l.classes) {
		weight := 1.0
		if l.targets == nil {
			weight = l.config.WeightOf(l.encoder.Schema().Classes[len(l.classes)])
		}
		l.classes = append(l.classes, weight)
	}
	if label >= young.Own || l.outputs.young.On() {
		l.shareOutputs(label, l.columnsWith(e))
	}
	if l.outputs.young.On() {
		return
	}
	if outputs := label + 1; outputs > max(l.levels.Outputs, 2) {
		l.addOutputs(outputs)
	}
	l.levels.Activate(label+1, l.encoder.Intercepts)
}

// columnsWith returns how many columns have rows after an event, at most.
func (l *Learner) columnsWith(e *event.Example) int { return l.encoder.Table.Len() + e.Features.Len() }

// shareOutputs changes which output learns which class as an event of a class needs it.
func (l *Learner) shareOutputs(label, columns int) {
	o := &l.outputs
	_, begins, full := o.after(label, l.levels.Outputs, columns)
	half := int(o.bytes / max(1, 2*o.cost(columns, 1)))
	switch {
	case begins:
		if l.levels.Outputs < young.Own {
			l.addOutputs(young.Own)
		}
		l.levels.Activate(young.Own, l.encoder.Intercepts)
		if full {
			half = 0
		}
		l.mergeYoung(half)
	case !o.young.On():
		return
	case o.cost(columns, o.alone(o.young.Known())) > o.bytes:
		l.mergeYoung(half)
	}
	for label >= o.young.Known() {
		if o.young.Young() == 0 {
			l.addOutputs(l.levels.Outputs + 1)
			l.levels.Activate(l.levels.Outputs, l.encoder.Intercepts)
		}
		l.levels.Shift(o.young.Shared(), o.young.Add(l.levels.Outputs-1), l.encoder.Intercepts)
	}
	if o.promotes(label, l.levels.Outputs, columns) {
		if l.levels.Outputs-1 >= o.most { // another class leaves its place
			l.mergeYoung(0)
		}
		l.promote(label)
	}
}

// mergeYoung has young classes share an output from here on, but for at most so many of the most events. It begins as
// the mean of theirs, as likely as all of them together.
func (l *Learner) mergeYoung(but int) {
	known := l.levels.Active()
	if l.outputs.young.On() {
		known = l.outputs.young.Known()
	}
	from := l.outputs.merge(known, l.levels.Outputs, but)
	last := from[len(from)-1]
	together := l.levels.Together(last, l.encoder.Intercepts)
	l.regroup(from)
	if len(last) > 1 {
		l.levels.Place(l.outputs.young.Shared(), together, l.encoder.Intercepts)
	}
}

// promote gives a class that shares an output one of its own: the shared one if no other class has it.
func (l *Learner) promote(class int) {
	y := &l.outputs.young
	if y.Young() > 1 {
		from := make([][]int, l.levels.Outputs, l.levels.Outputs+1)
		for k := range from {
			from[k] = []int{k}
		}
		l.regroup(append(from, []int{y.Shared()}))
	}
	own, shared := y.Promote(class, l.levels.Outputs-1)
	l.levels.Shift(y.Output(class), own, l.encoder.Intercepts)
	l.levels.Shift(y.Shared(), shared, l.encoder.Intercepts)
}

// regroup gives the Learner as many outputs as there are lists: each begins as the mean of those former ones.
func (l *Learner) regroup(from [][]int) {
	fill := l.levels.Regroup(from)
	if l.experts != nil {
		l.experts.Regroup(from, l.levels.End())
	}
	l.remake(len(from), fill)
	l.outputs.young.Changed = l.events
}

// addOutputs gives the Learner more outputs; those that there are keep what they have learned.
func (l *Learner) addOutputs(outputs int) {
	fill := l.levels.Grow(outputs)
	if l.experts != nil {
		l.experts.Grow(outputs, l.levels.End())
	}
	l.remake(outputs, fill)
}

// remake gives rows the width of so many outputs: fill makes one of one as it was.
func (l *Learner) remake(outputs int, fill func(to, from []float64)) {
	l.encoder.Widen(l.outputs.width(outputs), fill)
	l.snapshot = nil
	l.setOutputs()
}

// byClass returns the scores of the classes, given those of the outputs: these themselves, or in the memory of room.
func (o *outputs) byClass(scores []float64, room *[]float64) []float64 {
	if !o.young.On() {
		return scores
	}
	*room = o.young.Expand(scores, rows.NoClass, (*room)[:0])
	return *room
}

// active returns how many of the first classes have come, given how many outputs are in use.
func (o *outputs) active(outputs int) int {
	if o.young.On() {
		return o.young.Known()
	}
	return outputs
}

// Refusal returns why an event cannot be learned for want of memory: it has new columns, or a new class, for which there is
// no room. Nil is that it can.
func (l *Learner) Refusal(e *event.Example) *event.Refusal {
	bound, t := l.outputs.memory, l.encoder.Table
	if bound == 0 || e.Refused != nil || e.Weight == 0 || l.member != nil {
		return nil
	}
	width := t.Width()
	if outputs, _, _ := l.outputs.after(e.Label, l.levels.Outputs, l.columnsWith(e)); outputs != l.levels.Outputs {
		if width = l.outputs.width(outputs); outputs > l.levels.Outputs && !bound.Fits(t.Len(), width) {
			return l.noRoom("class "+quoted(l.encoder.Schema().Classes[e.Label]), t.Len(), width)
		}
	}
	if bound.Fits(t.Len()+e.Features.Len(), width) {
		return nil
	}
	i, n := bound.First(t, e.Features.Index, width)
	if i < 0 {
		return nil
	}
	return l.noRoom(l.nameFeature(e, i), n, width)
}

// noRoom returns the refusal of what would make so many rows of so many numbers.
func (l *Learner) noRoom(what string, rows, width int) *event.Refusal {
	return &event.Refusal{Reason: event.ReasonMemory, Detail: fmt.Sprintf("%s: %d rows of %d numbers are %d bytes; raise learner.max_memory = %d",
		what, rows, width, memory.Bytes(rows, width), l.config.MaxMemory)}
}

// nameFeature names the feature of an entry of an event, and its field. A name is looked for among all names, which takes
// its time: for the first refusal alone, which is the one that is shown.
func (l *Learner) nameFeature(e *event.Example, i int) string {
	column, s := e.Features.Index[i], l.encoder.Schema()
	name := "#" + strconv.FormatUint(uint64(column), 10)
	if l.monitors.Refused.By[event.ReasonMemory].Count == 0 || s.NumericIndices && s.Names.Len() == 0 {
		name = (&model.Head{Schema: s, Scaler: l.encoder.Scaling.Scaler}).Namer()(column)
	}
	what := "feature " + quoted(name)
	if e.Field != nil && s.Fields[e.Field[i]].Name != "" {
		what = "field " + quoted(s.Fields[e.Field[i]].Name) + ", " + what
	}
	return what
}

// quoted returns a name as a message that is cut shows it.
func quoted(name string) string {
	const most = 40
	if len(name) > most {
		name = watch.FirstBytes(name, most)
	}
	return strconv.Quote(name)
}

// TakeMoreClasses has the decoder of a Schema name more classes than max_classes: labels that come a few times, whose classes share
// an output, then take no class's place. It is for classes that nobody has named, of a stream that a single Learner learns.
func TakeMoreClasses(s *event.Schema) {
	if s.Target == loss.Sign && s.MaxClasses > young.Own {
		s.MoreClasses = moreClasses * s.MaxClasses
	}
}

// moreClasses is how many times as many labels as max_classes may come besides.
const moreClasses = 9

package online

// This file assigns classes to outputs. If separate outputs for all classes would need too much memory, classes with
// few events share one output, see package rare.

import (
	"fmt"
	"runtime"
	"strconv"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/health"
	"blankout/online/rare"
	"blankout/online/rows"
)

// outputs maps classes to outputs.
type outputs struct {
	rare    rare.Classes
	bytes   int64                  // memory limit, in bytes, beyond which rare classes share an output
	events  func(class int) uint64 // number of labeled events of a class
	most    int                    // largest number of classes with a separate output: Schema.MaxClasses
	memory  memoryBound
	several bool // classification, not regression
	// The number of outputs in these changes with the number of outputs here.
	ensemble *ensemble
	encoder  *encode.Encoder
	resized  bool // set by addClass
}

// rareBytes is the default memory limit for separate outputs. If the limit is exceeded, rare classes share an output.
// The rare classes with the most events keep separate outputs, up to half of the limit.
const rareBytes = 64 << 20

// collectBytes is the size of rows from which replaced rows are freed at once.
const collectBytes = 8 << 20

// leastSeparate is the number of first classes that have a separate output however many columns there are.
const leastSeparate = 3

func (l *Learner) newOutputs() *outputs {
	return &outputs{
		bytes: rareBytes, most: l.encoder.Schema().MaxClasses, memory: memoryBound(l.config.MaxMemory), several: l.targets == nil,
		ensemble: &l.predictor.ensemble, encoder: l.encoder,
		events: func(class int) uint64 {
			if n := l.monitors.Counts.Classes; class < len(n) {
				return n[class]
			}
			return 0
		},
	}
}

// after returns the number of outputs after an event whose class is label. k is the current number of outputs, and
// columns is the largest number of columns after the event. begins reports whether rare classes start to share an
// output. full reports that the limit on classes or on memory forces them to.
func (o *outputs) after(label, k, columns int) (outputs int, begins, full bool) {
	switch {
	case o.rare.On():
		if label >= o.rare.Known() && o.rare.Rare() == 0 || o.promotes(label, k, columns) && o.rare.Rare() > 1 {
			return k + 1, false, false
		}
		return k, false, false
	case label >= max(k, 2):
		outputs = label + 1
	default:
		outputs = k
	}
	if label < 0 || !o.several || outputs <= leastSeparate || outputs <= o.separate(columns) {
		return outputs, false, false
	}
	count := o.alone(outputs, columns)
	if full = count > 0 && (outputs > o.most || outputs > k && !o.fits(outputs, columns)); full {
		return outputs - count + 2, true, true
	}
	return outputs, count > 1 && o.cost(columns, outputs-1) > o.bytes, false
}

// separate returns the number of first classes that have a separate output whatever their number of events. It is
// leastSeparate if rare.AlwaysSeparate outputs alone exceed the limit for rare classes.
func (o *outputs) separate(columns int) int {
	if o.cost(columns, rare.AlwaysSeparate) > o.bytes {
		return leastSeparate
	}
	return rare.AlwaysSeparate
}

// alone returns how many of the first classes have too few events for a separate output, but have one.
func (o *outputs) alone(classes, columns int) (n int) {
	for class := o.separate(columns); class < classes; class++ {
		if o.events(class) < rare.SeparateAfter && !o.rare.IsRare(class) {
			n++
		}
	}
	return n
}

// room returns for how many rare classes separate outputs fit into half of the limit, besides the other outputs.
func (o *outputs) room(outputs, classes, columns int) int {
	return max(0, int(o.bytes/max(1, 2*o.cost(columns, 1)))-(outputs-o.alone(classes, columns)))
}

// cost returns the memory, in bytes, of rows with this number of outputs, for this number of columns.
func (o *outputs) cost(columns, outputs int) int64 {
	const many = 64 // rows are padded to whole cache lines
	width := o.ensemble.levels.Width
	return bytesOf(columns, outputs*(width(2*many)-width(many))/many)
}

// fits reports whether rows with this number of outputs are within the memory limit.
func (o *outputs) fits(outputs, columns int) bool {
	return o.memory.fits(columns, o.ensemble.levels.Width(outputs))
}

// promotes reports whether a class that shares an output gets a separate output at an event. label is the class of the
// event. From its second event on, a class gets a separate output if separate outputs then use at most half of their
// limit. From its eighth event on, any free memory is sufficient.
func (o *outputs) promotes(label, k, columns int) bool {
	if label < 0 || !o.rare.IsRare(label) {
		return false
	}
	events, alone := 1+o.events(label), o.alone(o.rare.Known(), columns)
	own := k - 1 // every other output belongs to one class
	switch {
	case events < 2 || o.rare.Rare() > 1 && !o.fits(k+1, columns):
		return false
	case events < rare.SeparateAfter:
		return own < o.most && 2*o.cost(columns, k) <= o.bytes
	}
	return own < o.most || alone > 0
}

// merge assigns rare classes (classes with few events) to a shared output. The rare classes with the most events, at
// most but of them, are excepted. known is the number of classes, and k the number of outputs. For each new output
// merge returns the old outputs whose mean it starts as.
func (o *outputs) merge(known, k, but, columns int) (from [][]int) {
	least := uint64(rare.SeparateAfter) // classes with fewer events share an output
	var count [rare.SeparateAfter]int
	first := o.separate(columns)
	for class := first; class < known; class++ {
		if n := o.events(class); n < least && !o.rare.IsRare(class) {
			count[n]++
		}
	}
	for ; least > 1 && count[least-1] <= but; least-- {
		but -= count[least-1]
	}
	return o.rare.Merge(known, k, func(class int) bool { return class >= first && o.events(class) < least }, o.events)
}

// addClass prepares the Learner for the class of an event, before the event is scored.
func (l *Learner) addClass(e *event.Example) {
	for e.Label >= len(l.classes) {
		weight := 1.0
		if l.targets == nil {
			weight = l.config.WeightOf(l.encoder.Schema().Classes[len(l.classes)])
		}
		l.classes = append(l.classes, weight)
	}
	if l.outputs.addClass(e.Label, l.outputs.columnsWith(e), l.events) {
		l.snapshot = nil
		l.setOutputs()
	}
}

// addClass makes sure that an output exists for the class of the event with this number. columns is the largest number
// of columns that have rows after the event. resized reports whether the number of outputs has changed.
func (o *outputs) addClass(label, columns int, number uint64) (resized bool) {
	o.resized = false
	if max(label+1, o.ensemble.levels.Outputs) > leastSeparate || o.rare.On() {
		o.share(label, columns, number)
	}
	if o.rare.On() {
		return o.resized
	}
	levels := o.ensemble.levels
	if outputs := label + 1; outputs > max(levels.Outputs, 2) {
		o.add(outputs)
	}
	levels.Activate(label + 1)
	return o.resized
}

// columnsWith returns the largest number of columns that can have rows after the event e.
func (o *outputs) columnsWith(e *event.Example) int { return o.encoder.Table.Len() + e.Features.Len() }

// share changes the assignment of classes to outputs, as required by an event whose class is label.
func (o *outputs) share(label, columns int, number uint64) {
	levels := o.ensemble.levels
	_, begins, full := o.after(label, levels.Outputs, columns)
	switch {
	case begins:
		first := min(o.separate(columns), max(label, leastSeparate)) // classes before label may have no event yet
		if levels.Outputs < first {
			o.add(first)
		}
		levels.Activate(first)
		but := o.room(levels.Outputs, levels.Active(), columns)
		if full {
			but = 0
		}
		o.mergeRare(but, columns, number)
	case !o.rare.On():
		return
	case o.cost(columns, levels.Outputs-1) > o.bytes && o.alone(o.rare.Known(), columns) > 0:
		o.mergeRare(o.room(levels.Outputs, o.rare.Known(), columns), columns, number)
	}
	for label >= o.rare.Known() {
		if o.rare.Rare() == 0 {
			o.add(levels.Outputs + 1)
			levels.Activate(levels.Outputs)
		}
		levels.Shift(o.rare.Shared(), o.rare.Add(levels.Outputs-1))
	}
	if o.promotes(label, levels.Outputs, columns) {
		if levels.Outputs-1 >= o.most { // another class loses its own output
			o.mergeRare(0, columns, number)
		}
		o.promote(label, number)
	}
}

// mergeRare makes rare classes share one output. At most but rare classes, those with the most events, keep a
// separate output. The shared output starts as the mean of the outputs of the merged classes, with the total
// probability of these classes.
func (o *outputs) mergeRare(but, columns int, number uint64) {
	levels := o.ensemble.levels
	known := levels.Active()
	if o.rare.On() {
		known = o.rare.Known()
	}
	from := o.merge(known, levels.Outputs, but, columns)
	last := from[len(from)-1]
	together := levels.Together(last)
	o.regroup(from, number)
	if len(last) > 1 {
		levels.Place(o.rare.Shared(), together)
	}
}

// promote gives a class that shares an output a separate output. If no other class uses the shared output, it becomes
// the separate output of the class.
func (o *outputs) promote(class int, number uint64) {
	levels, y := o.ensemble.levels, &o.rare
	if y.Rare() > 1 {
		from := make([][]int, levels.Outputs, levels.Outputs+1)
		for k := range from {
			from[k] = []int{k}
		}
		o.regroup(append(from, []int{y.Shared()}), number)
	}
	own, shared := y.Promote(class, levels.Outputs-1)
	levels.Shift(y.Output(class), own)
	levels.Shift(y.Shared(), shared)
}

// regroup replaces the old outputs by one new output for each list in from, see resize. Classes then have other outputs.
func (o *outputs) regroup(from [][]int, number uint64) {
	o.resize(from)
	o.rare.Changed = number
}

// add increases the number of outputs. Existing outputs keep their weights. A single output for two classes becomes the
// output of the second class, and its negation becomes the output of the first.
func (o *outputs) add(outputs int) {
	from := make([][]int, outputs)
	for k := range o.ensemble.levels.Outputs {
		from[k] = []int{k}
	}
	if o.ensemble.levels.Outputs == 1 {
		from[0], from[1] = []int{^0}, []int{0}
	}
	o.resize(from)
}

// resize replaces the old outputs of all experts by one new output for each list in from, see rows.Regroup. It changes the
// width of all rows.
func (o *outputs) resize(from [][]int) {
	o.ensemble.regroup(from)
	o.resized = true
	if o.cost(o.encoder.Table.Len(), len(from)) > collectBytes {
		runtime.GC() // the old rows would stay in memory until the rows have doubled again
	}
}

// byClass converts scores by output to scores by class. If each class has an output, it returns scores. Otherwise the
// result uses the memory of room.
func (o *outputs) byClass(scores []float64, room *[]float64) []float64 {
	if !o.rare.On() {
		return scores
	}
	*room = o.rare.Expand(scores, rows.NoClass, (*room)[:0])
	return *room
}

// active returns the number of classes seen so far, given the number of outputs in use.
func (o *outputs) active(outputs int) int {
	if o.rare.On() {
		return o.rare.Known()
	}
	return outputs
}

// Refusal returns a reason if learner.max_memory leaves no memory for an event's new columns or new class. It returns
// nil if the event can be learned.
func (l *Learner) Refusal(e *event.Example) *event.Refusal {
	if l.outputs.memory == 0 || e.Refused != nil || e.Weight == 0 {
		return nil
	}
	return l.outputs.refusal(e, l.monitors.Counts.Refused.By[event.ReasonMemory].Count == 0)
}

// refusal is Refusal for a finite memory limit. first reports whether e would be the first event that is rejected for
// this reason.
func (o *outputs) refusal(e *event.Example, first bool) *event.Refusal {
	t, now := o.encoder.Table, o.ensemble.levels.Outputs
	width := t.Width()
	if outputs, _, _ := o.after(e.Label, now, o.columnsWith(e)); outputs != now {
		if width = o.ensemble.levels.Width(outputs); outputs > now && !o.memory.fits(t.Len(), width) {
			return o.noRoom("class "+quoted(o.encoder.Schema().Classes[e.Label]), t.Len(), width)
		}
	}
	if o.memory.fits(t.Len()+e.Features.Len(), width) {
		return nil
	}
	i, n := o.memory.first(t, e.Features.Index, width)
	if i < 0 {
		return nil
	}
	return o.noRoom(nameFeature(o.encoder, e, i, first), n, width)
}

// noRoom returns the Refusal for something (what) that would need the given number of rows of width values.
func (o *outputs) noRoom(what string, rows, width int) *event.Refusal {
	return &event.Refusal{Reason: event.ReasonMemory, Detail: fmt.Sprintf("%s: %d rows of %d numbers are %d bytes; raise learner.max_memory = %d",
		what, rows, width, bytesOf(rows, width), int64(o.memory))}
}

// nameFeature describes feature i of an event, and its field. If lookup is false, it uses the column number instead of
// the feature's name, because finding the name is slow.
func nameFeature(n *encode.Encoder, e *event.Example, i int, lookup bool) string {
	column, s := e.Features.Index[i], n.Schema()
	name := "#" + strconv.FormatUint(uint64(column), 10)
	if lookup || s.NumericIndices && s.Names.Len() == 0 {
		name = (&model.Head{Schema: s, Scaler: n.Scaling.Scaler}).Namer()(column)
	}
	what := "feature " + quoted(name)
	if e.Field != nil && s.Fields[e.Field[i]].Name != "" {
		what = "field " + quoted(s.Fields[e.Field[i]].Name) + ", " + what
	}
	return what
}

// quoted quotes a name, shortened for messages.
func quoted(name string) string {
	const most = 40
	if len(name) > most {
		name = health.FirstBytes(name, most)
	}
	return strconv.Quote(name)
}

// TakeMoreClasses lets the decoder of a Schema accept more classes than max_classes. The additional classes are rare
// and share an output, so they do not displace other classes. It is for unnamed classes in a stream that is learned by
// a single Learner.
func TakeMoreClasses(s *event.Schema) {
	if s.Target == loss.Sign && s.MaxClasses > rare.AlwaysSeparate {
		s.MoreClasses = moreClasses * s.MaxClasses
	}
}

// The number of additional classes is moreClasses times max_classes.
const moreClasses = 9

// The part below limits the bytes of a learner's rows. It computes the number of bytes from the numbers of rows and
// columns, so the result is the same on every machine and after a restart.

// LeastMemory is the smallest Config.MaxMemory that is not 0, and defaultMemory is the default.
const LeastMemory, defaultMemory = 1 << 20, 4 << 30

// memoryBound is the largest number of bytes of rows; 0 means no limit.
type memoryBound int64

// bytesOf returns the number of bytes of the rows, with width float64 values each.
func bytesOf(rows, width int) int64 { return 8 * int64(rows) * int64(width) }

// fits reports whether the given number of rows, with width values each, is within the memoryBound.
func (b memoryBound) fits(rows, width int) bool { return b == 0 || bytesOf(rows, width) <= int64(b) }

// first returns the index of the first column whose row would exceed the memoryBound, and the number of rows including it.
// The rows are the rows of the Table and of the columns up to that column, with width values each. i is -1 if all rows
// fit. columns must have no duplicates.
func (b memoryBound) first(t *model.Table, columns []uint32, width int) (i, n int) {
	n = t.Len()
	if b.fits(n+len(columns), width) {
		return -1, n
	}
	for i, column := range columns {
		if t.Row(column) != nil {
			continue
		}
		if n++; !b.fits(n, width) {
			return i, n
		}
	}
	return -1, n
}

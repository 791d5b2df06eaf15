package labels

// This file matches labels with the events that wait for them.

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"sync/atomic"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/failpoint"
	"blankout/internal/loss"
)

// Join matches labels with events. Its methods are called with the records of a Merge,
// in that order, by one goroutine. What it says depends on those records alone.
//
// An id goes through these states. Its event comes and waits. Its label comes, and the event is to be
// learned. A further label within the wait that says something else corrects it: the
// event is to be learned again with the new one; what was learned before is not taken
// back. A label that comes before its event waits for that, as long. When the wait is
// over an event without a label is to be learned as Config.Default says, and a label is
// late.
type Join struct {
	config Config
	wait   int64 // milliseconds
	// remembered says for how many records the Join knows an id whose wait is over, so that it
	// can call its label late.
	remembered uint64
	store      *store
	state      State
	idle       atomic.Uint64 // counted by the Merge
	late       atomic.Uint64 // likewise: Counts.LatePartitions
	event      event.Example // what Waited returns, and its prediction
	prediction []float64
	// settles is set for a Joined: Expired returns events with a label too. over says that
	// its logs have ended.
	settles, over bool
}

// State is how far a Join has come. A checkpoint holds it as the block "labels".
type State struct {
	Tick  uint64 `json:"tick"`  // events and labels so far, without the refused
	First uint64 `json:"first"` // the oldest that is within the wait, if it has changed anything
	Sum   uint64 `json:"sum"`   // over what every record has changed
	Now   int64  `json:"now"`   // the time of the logs, in milliseconds
	// Held counts events within the wait, those with a label too, and labels that wait for
	// their event.
	Held uint64 `json:"held"`
	// Clocks says when the last record of each partition came.
	Clocks []Clock `json:"clocks"`
	Counts
	// Learned sums the measures of the answers that the events would have got when they were
	// learned; the progressive measures have the answers of when they came. Where labels are
	// numbers Wrong sums the absolute errors.
	Weight  float64 `json:"learned_weight"`
	Wrong   float64 `json:"learned_wrong"`
	LogLoss float64 `json:"learned_log_loss"`
}

// Clock is the time of the latest record of a partition.
type Clock struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Time      int64  `json:"time"`
}

// Counts say what became of events and labels.
type Counts struct {
	Pending  uint64 `json:"pending"`   // events that wait for a label now
	Matched  uint64 `json:"matched"`   // events that got one
	TimedOut uint64 `json:"timed_out"` // events that got none within the wait
	// Overflowed are those of TimedOut that had to go for max_pending.
	Overflowed uint64 `json:"overflowed"`
	// RepeatedEvents counts events that came while another event of their id was waiting. They
	// are not learned.
	RepeatedEvents uint64 `json:"repeated_events"`
	Early          uint64 `json:"early"`     // labels that came before their event
	Corrected      uint64 `json:"corrected"` // labels that changed an earlier one
	Repeated       uint64 `json:"repeated"`  // labels that said what an earlier one had said
	Late           uint64 `json:"late"`      // labels that came after the wait
	// Unmatched are early labels whose event did not come within MaxDelay.
	Unmatched uint64 `json:"unmatched"`
	// Forgotten are events that Forget took away and that would else have been matched or
	// timed out.
	Forgotten uint64 `json:"forgotten,omitempty"`
	// OutOfOrder are records of events and labels whose time is out of line with that of the
	// records around them. See Merge.
	OutOfOrder uint64 `json:"out_of_order"`
	// Idle counts the times that a silent partition was passed over, since Open.
	Idle uint64 `json:"-"`
	// LatePartitions are those that were added to a topic and whose first record came before
	// one that had been taken by then, since Open.
	LatePartitions uint64 `json:"-"`
	// Delays counts the matched labels by delay: index n those of less than 2^n seconds
	// and no less than half of that.
	Delays []uint64 `json:"delays"`
	// Age is how long ago, by the time of the logs, the oldest event or label within the
	// wait came, in milliseconds.
	Age int64 `json:"-"`
}

// Block is the name of the block that holds a State.
const Block = "labels"

// ReadState returns the State of a checkpoint, and whether it has one.
func ReadState(blocks []event.Block) (s State, ok bool, err error) {
	for _, b := range blocks {
		if b.Name == Block {
			if err := json.Unmarshal(b.Data, &s); err != nil {
				return s, false, fmt.Errorf("block %s: %w", Block, err)
			}
			return s, true, nil
		}
	}
	return s, false, nil
}

// Open returns a Join that goes on from a State; the zero State is the beginning. The
// events that wait are in the directory, which nobody else may use meanwhile. An error
// may be a *StateError or a *DamageError.
func Open(c Config, directory string, from State) (*Join, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	s, err := openStore(directory, from.Tick, from.Sum, from.First)
	if err != nil {
		return nil, err
	}
	from.Clocks, from.Delays = slices.Clone(from.Clocks), slices.Clone(from.Delays)
	return &Join{config: c, wait: c.MaxDelay.Milliseconds(), remembered: uint64(c.PendingMemory / bytesPerID), store: s, state: from}, nil
}

// Close closes the store.
func (j *Join) Close() error { return j.store.close() }

// State returns how far the Join has come.
func (j *Join) State() State {
	s := j.state
	s.Clocks, s.Delays = slices.Clone(s.Clocks), slices.Clone(s.Delays)
	return s
}

// Counts returns what became of events and labels so far.
func (j *Join) Counts() Counts {
	c := j.state.Counts
	c.Delays, c.Idle, c.LatePartitions = slices.Clone(c.Delays), j.idle.Load(), j.late.Load()
	if len(j.store.next) > 0 {
		c.Age = j.state.Now - j.store.next[0].time
	}
	return c
}

// Labeled returns how many events have got a label so far, or Config.Default for one.
func (j *Join) Labeled() uint64 { return j.config.Labeled(&j.state.Counts) }

// Labeled is Join.Labeled of such counts.
func (c *Config) Labeled(of *Counts) uint64 {
	if c.TimeoutLabel != "" {
		return of.Matched + of.TimedOut
	}
	return of.Matched
}

// Delay returns a bound, within a factor of two, on the delay of the share q of the
// matched labels, in seconds; NaN without any.
func (c *Counts) Delay(q float64) float64 {
	total := uint64(0)
	for _, n := range c.Delays {
		total += n
	}
	if total == 0 {
		return math.NaN()
	}
	sum := 0.0
	for i, n := range c.Delays {
		if sum += float64(n); sum >= q*float64(total) {
			return math.Ldexp(1, i)
		}
	}
	return math.NaN()
}

// SetLog has the Join say in log what it does about files that somebody has removed.
func (j *Join) SetLog(log *slog.Logger) { j.store.log = log }

// KeepsLate says whether late labels go to the dead letters.
func (j *Join) KeepsLate() bool { return j.config.LatePolicy == LateDeadLetter }

// SetDefault gives an event without a label what it is learned as, if anything is
// configured, and that is one of the classes or, where labels are numbers, a number.
func (j *Join) SetDefault(e *event.Example, s *event.Schema) {
	if j.config.TimeoutLabel == "" || e.Label != event.Unlabeled {
		return
	}
	if s.Target == loss.Sign {
		e.Label = s.FindClass(j.config.TimeoutLabel)
		return
	}
	if x, err := strconv.ParseFloat(j.config.TimeoutLabel, 64); err == nil {
		e.Label, e.Target = 0, x
	}
}

// Learned adds the measures of an event as it is learned.
func (j *Join) Learned(weight, wrong, logLoss float64) {
	j.state.Weight += weight
	j.state.Wrong += wrong
	j.state.LogLoss += logLoss
}

// Outcome is what a record led to.
type Outcome uint8

// The outcomes of a record.
const (
	Waits       Outcome = iota // it waits
	Matches                    // the event is to be learned
	Corrects                   // the event is to be learned again
	Repeats                    // it says nothing new
	IsLate                     // a label whose event waits no more
	IsForgotten                // a label of an event that was taken away
)

// Waited is an event that has waited. It is borrowed until the next call of the Join.
type Waited struct {
	*event.Example           // with Label and Weight as they are to be learned
	Prediction     []float64 // as Event was given it
	Partition      int32
}

// Advance says that a record of a partition has come, e.Arrival and e.OddTime of it, before
// anything is done with it.
func (j *Join) Advance(topic string, partition int32, e *event.Example) {
	j.state.Now = max(j.state.Now, e.Arrival)
	if e.OddTime {
		j.state.OutOfOrder++
	}
	i, ok := slices.BinarySearchFunc(j.state.Clocks, Clock{Topic: topic, Partition: partition}, compareClock)
	if !ok {
		j.state.Clocks = slices.Insert(j.state.Clocks, i, Clock{Topic: topic, Partition: partition})
	}
	j.state.Clocks[i].Time = e.Arrival
}

// Expired returns the next event whose wait is over and that has no label, nil if there
// is none. It must be called after Advance until it returns nil. Its Label is
// event.Unlabeled.
func (j *Join) Expired() (*Waited, error) {
	s := &j.state
	for {
		d, err := j.store.oldest()
		if err != nil {
			return nil, fmt.Errorf("looking for events whose wait is over: %w", err)
		}
		if d == nil {
			return nil, nil
		}
		over := d.time+j.wait < s.Now
		if !over && s.Held <= j.config.MaxPending && !j.over {
			return nil, nil
		}
		s.First = d.tick + 1
		st, _, err := j.store.find(d.id)
		if err != nil {
			return nil, fmt.Errorf("looking for an event whose wait is over: %w", err)
		}
		oldest := *d
		j.store.pass()
		switch {
		case oldest.label && st.event == 0 && st.tick == oldest.tick:
			s.Held--
			s.Unmatched++
			continue
		case oldest.label:
			continue
		}
		s.Held--
		if st.labeled && !j.settles || j.over && !st.labeled { // of the latter nothing is known yet
			continue
		}
		w, err := j.waited(oldest.number)
		switch {
		case err != nil:
			return nil, err
		case w == nil && !st.labeled:
			s.Pending--
			s.Forgotten++
			continue
		case w == nil:
			continue
		case st.labeled:
			return w.as(&st.standing), nil
		}
		s.Pending--
		s.TimedOut++
		if !over {
			s.Overflowed++
		}
		return w, nil
	}
}

// Event takes an event that has come, and the numbers of its prediction. If its label is there
// already it returns the event with it.
func (j *Join) Event(e *event.Example, partition int32, prediction []float64) (Outcome, *Waited, error) {
	s, of := &j.state, hash(e.Key)
	was, ok, err := j.store.find(of)
	if err != nil {
		return 0, nil, fmt.Errorf("looking for the label of an event: %w", err)
	}
	st := standing{event: s.Tick + 1, came: s.Now}
	switch {
	case ok && was.event > s.First: // its tick is at least First
		s.RepeatedEvents++
		s.Tick++
		return Repeats, nil, nil
	case ok && was.event == 0 && was.tick >= s.First: // an early label
		st.labeled, st.class, st.target, st.weight = true, was.class, was.target, was.weight
		s.Held--
	}
	next := entry{time: s.Now, id: of, standing: st}
	if err := j.put(&next, encodeEvent(e, partition, prediction), &was, ok); err != nil {
		return 0, nil, err
	}
	s.Held++
	if !st.labeled {
		s.Pending++
		return Waits, nil, nil
	}
	s.Matched++
	j.delay(0)
	w, err := j.waited(next.number)
	if err != nil {
		return 0, nil, err
	}
	return Matches, w.as(&st), nil
}

// Label says that a label has come: the Key, Label, Target and Weight of e. Where the event is to be learned with it, it returns
// that.
func (j *Join) Label(e *event.Example) (Outcome, *Waited, error) {
	s, of := &j.state, hash(e.Key)
	was, ok, err := j.store.find(of)
	if err != nil {
		return 0, nil, fmt.Errorf("looking for the event of a label: %w", err)
	}
	st := was.standing
	early := st.event <= s.First // or there is none
	switch {
	case ok && !early:
	case ok && st.event > 0 && st.came+2*j.wait >= s.Now && s.Tick-st.event < j.remembered:
		s.Late++
		s.Tick++
		return IsLate, nil, nil
	case ok && st.event == 0 && was.tick >= s.First: // another early one
	default:
		st = standing{}
	}
	if st.labeled && st.class == e.Label && st.target == e.Target && st.weight == e.Weight {
		s.Repeated++
		s.Tick++
		return Repeats, nil, nil
	}
	outcome := Matches
	if st.labeled {
		outcome = Corrects
	}
	var w *Waited
	if !early {
		if w, err = j.waited(st.entry); err != nil {
			return 0, nil, err
		}
	}
	st.labeled, st.class, st.target, st.weight = true, e.Label, e.Target, e.Weight
	if err := j.put(&entry{label: true, time: s.Now, id: of, standing: st}, nil, &was, ok); err != nil {
		return 0, nil, err
	}
	switch {
	case early && outcome == Corrects:
		s.Corrected++
	case early:
		s.Early++
		s.Held++
	case w == nil && outcome == Matches:
		s.Forgotten++
		s.Pending--
	case w == nil: // it was learned before it was forgotten
	case outcome == Corrects:
		s.Corrected++
	default:
		s.Matched++
		s.Pending--
		j.delay(s.Now - st.came)
	}
	if early {
		return Waits, nil, nil
	}
	if w == nil {
		return IsForgotten, nil, nil
	}
	return outcome, w.as(&st), nil
}

// Forget takes away the features of the event that waits with an id, and says whether
// there is one. Nothing is learned of it from then on, and its label is counted as that of
// a forgotten event; its id and its time stay until its wait is over, for only they tell
// that the label is not to be learned. It must be called before any record, with the State
// of the newest checkpoint: events that came after that are not here, since they will be
// read again.
func (j *Join) Forget(id []byte) (bool, error) {
	st, ok, err := j.store.find(hash(id))
	if ok = ok && st.event > j.state.First; ok {
		err = j.store.forget(st.entry)
	}
	if err != nil {
		return false, fmt.Errorf("forgetting an event that waits for its label: %w", err)
	}
	return ok, nil
}

// put writes down an entry of the present record. See store.put.
func (j *Join) put(e *entry, body []byte, was *entry, found bool) error {
	e.tick = j.state.Tick
	if err := j.store.put(e, body, was, found); err != nil {
		return fmt.Errorf("writing down what waits for labels: %w", err)
	}
	j.state.Sum = e.sum
	j.state.Tick++
	return nil
}

// Flush writes what waits to the disk, once that is much. It is to be called now and then,
// before a record. After an error, as on a full disk, everything is as it was, and Flush may
// be called again; until then what has come is in memory.
func (j *Join) Flush() error {
	if err := j.store.flushIfMuch(); err != nil {
		return fmt.Errorf("writing the events that wait for labels: %w", err)
	}
	return nil
}

// hash returns the hash by which the store knows an id.
func hash(of []byte) id {
	sum := sha256.Sum256(of)
	return id(sum[:16])
}

// delay counts a label that came after so many milliseconds.
func (j *Join) delay(ms int64) {
	n := 0
	for s := ms / 1000; s > 0; s /= 2 {
		n++
	}
	for len(j.state.Delays) <= n {
		j.state.Delays = append(j.state.Delays, 0)
	}
	j.state.Delays[n]++
}

// as gives an event its label.
func (w *Waited) as(st *standing) *Waited {
	w.Label, w.Target = st.class, st.target
	w.Weight *= st.weight
	return w
}

// waited returns the event of an entry, nil if it was taken away.
func (j *Join) waited(number uint64) (w *Waited, err error) {
	body, err := j.store.event(number)
	if err != nil || body == nil {
		return nil, err
	}
	w = &Waited{Example: &j.event}
	if w.Partition, j.prediction = decodeEvent(body, &j.event, j.prediction); w.Partition < 0 {
		return nil, fmt.Errorf("an event that waited for its label, entry %d of the store, cannot be read", number)
	}
	w.Prediction = j.prediction
	return w, nil
}

// encodeEvent writes what an event is learned from.
func encodeEvent(e *event.Example, partition int32, prediction []float64) []byte {
	c := &coder.Coder{}
	codeEvent(c, e, &partition, &prediction)
	return c.Out
}

// decodeEvent reads what encodeEvent wrote. The partition is -1 if that is not possible.
func decodeEvent(body []byte, e *event.Example, prediction []float64) (partition int32, _ []float64) {
	c := coder.Read(body)
	*e = event.Example{Label: event.Unlabeled}
	codeEvent(c, e, &partition, &prediction)
	if !c.Done() || len(e.Features.Index) != len(e.Features.Value) || e.Field != nil && len(e.Field) != len(e.Features.Index) {
		return -1, nil
	}
	return partition, prediction
}

func codeEvent(c *coder.Coder, e *event.Example, partition *int32, prediction *[]float64) {
	p := int(*partition)
	c.Int(&p)
	*partition = int32(p)
	c.Int64(&e.Offset)
	c.Int64(&e.Time)
	c.Float(&e.Weight)
	c.Bytes(&e.Key)
	c.Uint32s(&e.Features.Index)
	c.Floats(&e.Features.Value)
	c.Uint16s(&e.Field)
	c.Uint16s(&e.Missing)
	c.Floats(prediction)
}

// Frozen is a Join's state at one instant, for a checkpoint.
type Frozen struct {
	join  *Join
	state State
}

// Freeze returns the state as it is now.
func (j *Join) Freeze() *Frozen { return &Frozen{j, j.State()} }

// Block makes what waits safe on disk and returns the block of the checkpoint. It may be
// called from another goroutine, while the Join goes on.
func (f *Frozen) Block() (event.Block, error) {
	if err := failpoint.Here("labels.mark"); err != nil {
		return event.Block{}, err
	}
	if err := f.join.store.mark(); err != nil {
		return event.Block{}, err
	}
	if err := failpoint.Here("labels.marked"); err != nil {
		return event.Block{}, err
	}
	data, err := json.Marshal(f.state)
	return event.Block{Name: Block, Data: data}, err
}

// LetGo frees the space that no checkpoint needs any more; the checkpoint of f is the oldest
// one kept. The goroutine that calls Block may call it.
func (f *Frozen) LetGo() error {
	if err := failpoint.Here("labels.letgo"); err != nil {
		return err
	}
	s := &f.state
	if err := f.join.store.letGo(s.First, s.Now-2*f.join.wait, s.Tick-min(s.Tick, f.join.remembered)); err != nil {
		return fmt.Errorf("letting go of events that no longer wait: %w", err)
	}
	return nil
}

func compareClock(a, b Clock) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

package labels

// This file matches labels with the events that wait for them.

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"sync/atomic"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/failpoint"
	"blankout/internal/loss"
)

// Join matches labels with events. One goroutine calls its methods, with the records of a Merge in their order. Its
// results depend only on those records.
//
// An event arrives and waits for its label. The event is learned when its label arrives. If another label for the event
// arrives within the wait, it is a correction: the event is learned again with the new label, and the earlier learning
// is not undone. A label that arrives before its event waits for the event, for the same time. If the wait of an event
// ends without a label, the event is learned with Config.TimeoutLabel, and a later label is late.
type Join struct {
	config Config
	wait   int64 // wait in milliseconds
	// remembered is the number of records for which the Join keeps an ID after its wait, so that it recognizes late
	// labels.
	remembered uint64
	store      *store
	state      State
	idle       atomic.Uint64 // Counts.Idle, which the Merge counts
	late       atomic.Uint64 // Counts.LatePartitions, which the Merge counts
	event      event.Example // the event of a Waited, and its prediction
	prediction []float64
	// settles is set by a Joined. If it is set, Expired also returns events that have a label. over means that the logs
	// of the Joined have ended.
	settles, over bool
}

// State is the state of a Join. A checkpoint stores it as the block "labels".
type State struct {
	Tick      uint64 `json:"tick"`  // number of events and labels so far, without refused records
	FirstTick uint64 `json:"first"` // tick of the oldest record within the wait that changed the store
	Sum       uint64 `json:"sum"`   // checksum over the changes of all records
	Now       int64  `json:"now"`   // current time of the logs, in milliseconds
	// WithinWait counts the events within the wait, with or without a label, and the labels that wait for their event.
	WithinWait uint64 `json:"held"`
	// Clocks has the arrival of the last record of each partition.
	Clocks []Clock `json:"clocks"`
	Counts
	// Weight, Wrong and LogLoss are sums over predictions made when their events were learned. The progressive measures
	// use the predictions made when the events arrived. For regression, Wrong sums the absolute errors.
	Weight  float64 `json:"learned_weight"`
	Wrong   float64 `json:"learned_wrong"`
	LogLoss float64 `json:"learned_log_loss"`
}

// Clock is the time of the latest record in a partition.
type Clock struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Time      int64  `json:"time"`
}

// Counts counts the events and labels by outcome.
type Counts struct {
	Pending  uint64 `json:"pending"`   // events that currently wait for a label
	Matched  uint64 `json:"matched"`   // events that received a label
	TimedOut uint64 `json:"timed_out"` // events without a label within the wait
	// Overflowed counts the TimedOut events that were removed because of max_pending.
	Overflowed uint64 `json:"overflowed"`
	// RepeatedEvents counts events that arrived while another event with the same ID was waiting. These events are not
	// learned.
	RepeatedEvents uint64 `json:"repeated_events"`
	Early          uint64 `json:"early"`     // labels that arrived before their event
	Corrected      uint64 `json:"corrected"` // labels that changed an earlier label
	Repeated       uint64 `json:"repeated"`  // labels equal to an earlier label
	Late           uint64 `json:"late"`      // labels that arrived after the wait
	// Unmatched counts early labels whose event did not arrive within MaxDelay.
	Unmatched uint64 `json:"unmatched"`
	// OutOfOrder counts records of events and labels whose time does not fit the times of the records around them. See
	// Merge.
	OutOfOrder uint64 `json:"out_of_order"`
	// Idle counts how often a silent partition was skipped, since Open.
	Idle uint64 `json:"-"`
	// LatePartitions counts, since Open, partitions that were added to a topic too late: their first record was older
	// than a processed record.
	LatePartitions uint64 `json:"-"`
	// Delays counts the matched labels by delay. Element n counts delays from 2^(n-1) to 2^n seconds.
	Delays []uint64 `json:"delays"`
	// Age is the time since the arrival of the oldest event or label within the wait, in milliseconds of log time.
	Age int64 `json:"-"`
}

// Block is the name of the checkpoint block with a State.
const Block = "labels"

// ReadState returns the State in a checkpoint, and whether there is one.
func ReadState(blocks []event.Block) (s State, ok bool, err error) {
	data, err := event.FindBlock(blocks, Block)
	if err != nil {
		return s, false, nil
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, false, fmt.Errorf("block %s: %w", Block, err)
	}
	return s, true, nil
}

// Open returns a Join that continues from a State; the zero State is the beginning. The directory has the waiting
// events, and nothing else may use it. An error may be a *StateError or a *DamageError.
func Open(c Config, directory string, from State) (*Join, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	s, err := openStore(directory, from.Tick, from.Sum, from.FirstTick)
	if err != nil {
		return nil, err
	}
	from.Clocks, from.Delays = slices.Clone(from.Clocks), slices.Clone(from.Delays)
	return &Join{config: c, wait: c.MaxDelay.Milliseconds(), remembered: uint64(c.PendingMemory / bytesPerID), store: s, state: from}, nil
}

// Close closes the store.
func (j *Join) Close() error { return j.store.Close() }

// State returns the current state of the Join.
func (j *Join) State() State {
	s := j.state
	s.Clocks, s.Delays = slices.Clone(s.Clocks), slices.Clone(s.Delays)
	return s
}

// Counts returns the counts so far.
func (j *Join) Counts() Counts {
	c := j.state.Counts
	c.Delays, c.Idle, c.LatePartitions = slices.Clone(c.Delays), j.idle.Load(), j.late.Load()
	if oldest := j.store.next; oldest != nil {
		c.Age = j.state.Now - oldest.time
	}
	return c
}

// Labeled returns the number of events so far that received a label, or Config.TimeoutLabel in place of a label.
func (j *Join) Labeled() uint64 { return j.config.Labeled(&j.state.Counts) }

// Labeled returns the result of Join.Labeled for the given counts.
func (c *Config) Labeled(of *Counts) uint64 {
	if c.TimeoutLabel != "" {
		return of.Matched + of.TimedOut
	}
	return of.Matched
}

// Delay returns an upper bound, in seconds, of the delay of the fraction q of the matched labels with the smallest
// delays. The bound is at most twice the exact value, or 1. Delay returns NaN if no label was matched.
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

// KeepsLate reports whether late labels are stored as dead letters.
func (j *Join) KeepsLate() bool { return j.config.LatePolicy == LateDeadLetter }

// SetDefault sets the configured TimeoutLabel on an event without a label. It does nothing if no TimeoutLabel is
// configured, or if TimeoutLabel is not one of the classes. For regression, it does nothing if TimeoutLabel is not a
// number.
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

// Learned adds an event's loss and weight to the sums Weight, Wrong and LogLoss when the event is learned.
func (j *Join) Learned(weight, wrong, logLoss float64) {
	j.state.Weight += weight
	j.state.Wrong += wrong
	j.state.LogLoss += logLoss
}

// Outcome is the result of processing a record.
type Outcome uint8

// The outcomes of a record.
const (
	Waits    Outcome = iota // the record waits
	Matches                 // the event must be learned
	Corrects                // the event must be learned again
	Repeats                 // the record changes nothing
	IsLate                  // a label whose event no longer waits
)

// Waited is an event whose wait is over or whose label has arrived. It is valid until the next call of the Join.
type Waited struct {
	*event.Example           // has the Label and Weight to learn
	Prediction     []float64 // prediction that was passed to Event
	Partition      int32
}

// Advance processes the arrival of a record in a partition, from e.Arrival and e.OddTime. Call it before any other
// method for this record.
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

// Expired returns the next event whose wait is over without a label, or nil if no such event exists. The event's Label
// is event.Unlabeled. Call it after Advance, until it returns nil.
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
		if !over && s.WithinWait <= j.config.MaxPending && !j.over {
			return nil, nil
		}
		s.FirstTick = d.tick + 1
		st, _, err := j.store.find(d.id)
		if err != nil {
			return nil, fmt.Errorf("looking for an event whose wait is over: %w", err)
		}
		oldest := *d
		j.store.pass()
		switch {
		case oldest.label && st.event == 0 && st.tick == oldest.tick:
			s.WithinWait--
			s.Unmatched++
			continue
		case oldest.label:
			continue
		}
		s.WithinWait--
		if st.labeled && !j.settles || j.over && !st.labeled { // in the second case the wait has not ended yet
			continue
		}
		w, err := j.waited(&oldest.standing)
		switch {
		case err != nil:
			return nil, err
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

// Event adds an event that has arrived, and its prediction. If the event's label has already arrived, Event returns the
// event with the label.
func (j *Join) Event(e *event.Example, partition int32, prediction []float64) (Outcome, *Waited, error) {
	s, of := &j.state, hash(e.Key)
	was, ok, err := j.store.find(of)
	if err != nil {
		return 0, nil, fmt.Errorf("looking for the label of an event: %w", err)
	}
	st := standing{event: s.Tick + 1, came: s.Now}
	switch {
	case ok && was.event > s.FirstTick: // its tick is at least First
		s.RepeatedEvents++
		s.Tick++
		return Repeats, nil, nil
	case ok && was.event == 0 && was.tick >= s.FirstTick: // an early label
		st.labeled, st.class, st.target, st.weight = true, was.class, was.target, was.weight
		s.WithinWait--
	}
	next := entry{time: s.Now, id: of, standing: st}
	c := &coder.Coder{}
	codeEvent(c, e, &partition, &prediction)
	if err := j.put(&next, c.Out, &was, ok); err != nil {
		return 0, nil, err
	}
	s.WithinWait++
	if !st.labeled {
		s.Pending++
		return Waits, nil, nil
	}
	s.Matched++
	j.delay(0)
	w, err := j.waited(&next.standing)
	if err != nil {
		return 0, nil, err
	}
	return Matches, w.as(&st), nil
}

// Label processes a label: the Key, Label, Target and Weight of e. If an event must be learned with the label, Label
// returns the event.
func (j *Join) Label(e *event.Example) (Outcome, *Waited, error) {
	s, of := &j.state, hash(e.Key)
	was, ok, err := j.store.find(of)
	if err != nil {
		return 0, nil, fmt.Errorf("looking for the event of a label: %w", err)
	}
	st := was.standing
	early := st.event <= s.FirstTick // or there is no event
	switch {
	case ok && !early:
	case ok && st.event > 0 && st.came+2*j.wait >= s.Now && s.Tick-st.event < j.remembered:
		s.Late++
		s.Tick++
		return IsLate, nil, nil
	case ok && st.event == 0 && was.tick >= s.FirstTick: // another early label
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
		if w, err = j.waited(&st); err != nil {
			return 0, nil, err
		}
	}
	st.labeled, st.class, st.target, st.weight = true, e.Label, e.Target, e.Weight
	if err := j.put(&entry{label: true, time: s.Now, id: of, standing: st}, nil, &was, ok); err != nil {
		return 0, nil, err
	}
	switch {
	case outcome == Corrects:
		s.Corrected++
	case early:
		s.Early++
		s.WithinWait++
	default:
		s.Matched++
		s.Pending--
		j.delay(s.Now - st.came)
	}
	if early {
		return Waits, nil, nil
	}
	return outcome, w.as(&st), nil
}

// put writes an entry for the current record. See store.put.
func (j *Join) put(e *entry, body []byte, was *entry, found bool) error {
	e.tick = j.state.Tick
	if err := j.store.put(e, body, was, found); err != nil {
		return fmt.Errorf("writing down what waits for labels: %w", err)
	}
	j.state.Sum = j.store.sum
	j.state.Tick++
	return nil
}

// Flush writes waiting events to disk if there are many. Call it regularly before a record. If Flush returns an error,
// for example because the disk is full, nothing is lost and Flush may be called again. The events stay in memory until
// a call succeeds.
func (j *Join) Flush() error {
	return j.store.flushIfMuch()
}

// hash returns the hash under which the store keeps an ID.
func hash(of []byte) id {
	sum := sha256.Sum256(of)
	return id(sum[:16])
}

// delay counts a matched label with this delay.
func (j *Join) delay(ms int64) {
	n := bits.Len64(uint64(max(ms, 0) / 1000))
	for len(j.state.Delays) <= n {
		j.state.Delays = append(j.state.Delays, 0)
	}
	j.state.Delays[n]++
}

// as sets the label of an event, and returns the event.
func (w *Waited) as(st *standing) *Waited {
	w.Label, w.Target = st.class, st.target
	w.Weight *= st.weight
	return w
}

// waited returns the event of an ID.
func (j *Join) waited(st *standing) (w *Waited, err error) {
	body, err := j.store.event(st)
	if err != nil {
		return nil, err
	}
	w = &Waited{Example: &j.event}
	if w.Partition, j.prediction = decodeEvent(body, &j.event, j.prediction); w.Partition < 0 {
		return nil, fmt.Errorf("an event that waited for its label, record %d, cannot be read", st.event-1)
	}
	w.Prediction = j.prediction
	return w, nil
}

// decodeEvent decodes what codeEvent has encoded. The partition is -1 if the bytes are invalid.
func decodeEvent(body []byte, e *event.Example, prediction []float64) (partition int32, _ []float64) {
	c := coder.Read(body)
	*e = event.Example{Label: event.Unlabeled}
	codeEvent(c, e, &partition, &prediction)
	if !c.Done() || len(e.Features.Index) != len(e.Features.Value) || e.Field != nil && len(e.Field) != len(e.Features.Index) {
		return -1, nil
	}
	return partition, prediction
}

// codeEvent encodes or decodes the parts of an event that learning needs.
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

// Frozen is the state of a Join at one moment, for a checkpoint.
type Frozen struct {
	join  *Join
	state State
}

// Freeze returns the current state as a Frozen.
func (j *Join) Freeze() *Frozen { return &Frozen{j, j.State()} }

// Block syncs the waiting events to disk and returns the block for the checkpoint. Another goroutine may call it while
// the Join continues.
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

// LetGo frees the space that no checkpoint needs, if the checkpoint of f is the oldest checkpoint that is kept. Only
// the goroutine that calls Block may call LetGo.
func (f *Frozen) LetGo() error {
	if err := failpoint.Here("labels.letgo"); err != nil {
		return err
	}
	s := &f.state
	if err := f.join.store.freeUnneeded(s.FirstTick, s.Now-2*f.join.wait, s.Tick-min(s.Tick, f.join.remembered)); err != nil {
		return fmt.Errorf("removing events that no longer wait: %w", err)
	}
	return nil
}

func compareClock(a, b Clock) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

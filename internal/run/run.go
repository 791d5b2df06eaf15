// Package run is the loop that learns from a stream, and its jobs.
//
// The loop (loop.go) takes batches that are read ahead (ahead.go). What is done for each
// record of them, and around it, is an [Intake] (intake.go), which the members of a group
// use too. A [Contest] has further learners of the same stream, which learn beside the lead (contest.go) and may take its place
// (promote.go). Beside it work the jobs: saving checkpoints
// (save.go), publishing models (publish.go), validating against the exact solution
// (validate.go), and adopting that solution (adopt.go), for which learning waits. A job
// gets a frozen state when it begins and nothing of the loop; what it comes back with is
// taken over on the loop's goroutine.
package run

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"blankout/batch"
	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/online"
	"blankout/stream/labels"
)

// Runner learns from a Source until it ends or is told to stop, and keeps the
// Learner's state and its place in the stream together in checkpoints.
//
// Two goroutines do it: one reads and decodes ahead, the caller of Run learns. A
// third encodes and writes a checkpoint while learning goes on, a fourth validates
// or solves; they work on copies. All are Run's and end before it returns.
//
// The state after a number of events depends on those events alone: neither
// saves, nor publishing, nor where a batch ends changes a weight. A run that is
// killed and started again from its last checkpoint therefore ends in the same
// state, to the bit, as one that never was (one partition; with several the
// order in which they interleave is chance, and every record still counts once).
type Runner struct {
	Config Config
	Source event.Source
	State
	// Contest has further learners of the stream; nil for none. Run keeps it current. It goes without Labels.
	Contest *Contest
	Schema  *event.Schema // the one the Source's decoder adds to
	// Fingerprint holds what gives the weights their meaning beside the Learner's
	// own settings: how records become events. It goes into every checkpoint, and
	// Resume compares it.
	Fingerprint online.Fingerprint

	// Save writes a checkpoint for good and returns its name and size. Nil saves
	// nothing. It is called from a goroutine of Run's, never twice at a time.
	// After an error learning goes on and a later save is tried, unless the error is
	// a FinalError: it ends the run, and nothing more is saved.
	Save func(blocks iter.Seq[event.Block]) (name string, size int64, err error)
	// Commit tells the broker what has been saved, for its lag displays. An error
	// is logged and nothing more. May be nil.
	Commit func(context.Context, event.Offsets) error
	// DeadLetters is needed under the policy dead-letter.
	DeadLetters DeadLetters
	// Mislabeled keeps the mislabeled events, and a checkpoint passes none that is not safe
	// there. May be nil: they are then only counted.
	Mislabeled Mislabeled
	// Observe sees every new Status, on the goroutine of Run. May be nil.
	Observe func(*Status)
	// Validator compares the live weights with the exact solution beside learning,
	// and says which records are held out. May be nil; without its Open there is
	// only a holdout.
	Validator *validate.Validator
	// Labels is set where the Source is a labels.Merge: the events wait in it for their labels.
	// Runner does not close it. With Labels the run can neither validate by Open nor adopt, and
	// it keeps no Mislabeled: all of these read events again or need their bytes.
	Labels *labels.Join
	// Saved describes the checkpoint that the run goes on from: name, bytes and time.
	Saved SaveStatus
	// Report takes a finished validation, on a goroutine of Run's. May be nil.
	Report func(*batch.Validation) error
	// Answer is told what was predicted of each event before it was learned, nil for one that is refused, in their order,
	// on the goroutine of Run, and a nil event at the end of each batch. Its slices hold until it returns. An error ends
	// the run. It goes without Labels. May be nil.
	Answer func(e *event.Example, p *online.Prediction) error
	Log    *slog.Logger // nil logs nothing
	// FirstVersion is that of the first Model published. Versions never go
	// back if it lies above those of all earlier runs.
	FirstVersion uint64

	status     atomic.Pointer[Status]
	published  atomic.Pointer[Published]
	asked      atomic.Uint64 // how often somebody has read what is published
	validation atomic.Bool   // one is asked for
	promotions promotions    // those asked for
	unread     bool          // nobody will ask for what is Published and Recent
	recent     recentRing
}

// State is what a run goes on from and comes to. Run keeps it current, but for the
// Reservoir; nobody else may use it meanwhile.
type State struct {
	Learner   *online.Learner
	Offsets   event.Offsets // where in the stream the Learner's state belongs
	Adoptions Adoptions     // how far exact solutions were adopted
	Reservoir []byte        // of a checkpoint, see validate.ReadReservoir
}

// Config says when Run saves, publishes and stops.
type Config struct {
	// Refused is what happens to a record that cannot be used.
	Refused Policy
	// SaveEvents and SaveInterval say after how many records and how long a
	// checkpoint is due; 0 switches either off. The last one, when the run ends
	// or is stopped, comes in any case.
	SaveEvents   uint64
	SaveInterval time.Duration
	// PublishEvents and PublishInterval say after how many records and how long
	// readers get a new Model, 0 switches either off. Copying never takes more
	// than a twentieth of the time: a large model is published less often.
	PublishEvents   uint64
	PublishInterval time.Duration
	// Unlabeled says that events without a label are meant to have none: they count as
	// learned. Fruitless lets a run end well however little it has learned, see
	// FruitlessError.
	Unlabeled, Fruitless bool
	// MaxEvents ends the run after that many records, 0 for no end.
	MaxEvents uint64
	// KeepServing says that the model is served on when the events have ended.
	KeepServing bool
	// Unnamed says that nobody has named the classes. Labels that are numbers may
	// then be meant as such: see NumbersError.
	Unnamed bool
	// LabelKeep is how many checkpoints are kept: they need the events that were waiting for
	// labels.
	LabelKeep int
	// ShutdownTimeout is how long stopping may take: finishing the batch, the
	// last save, the commit.
	ShutdownTimeout time.Duration
}

// DefaultConfig returns the values of an empty configuration.
func DefaultConfig() Config {
	return Config{
		Refused:         PolicyDeadLetter,
		SaveEvents:      1_000_000,
		SaveInterval:    30 * time.Second,
		PublishInterval: time.Second,
		ShutdownTimeout: 10 * time.Second,
	}
}

// Policy says what happens to a record that cannot be used.
type Policy string

// The policies for refused records. They are counted under each.
const (
	PolicyDeadLetter Policy = "dead-letter" // to the dead letters, and on
	PolicySkip       Policy = "skip"        // on
	PolicyFail       Policy = "fail"        // save what came before it, and end with an error
)

// Check reports the first value that makes no sense, with its name in front.
func (c Config) Check() error {
	switch {
	case c.Refused != PolicyDeadLetter && c.Refused != PolicySkip && c.Refused != PolicyFail:
		return fmt.Errorf("refused: %q, want %s, %s or %s", c.Refused, PolicyDeadLetter, PolicySkip, PolicyFail)
	case c.SaveInterval < 0:
		return fmt.Errorf("save_interval: %v is negative", c.SaveInterval)
	case c.PublishInterval < 0:
		return fmt.Errorf("publish_interval: %v is negative", c.PublishInterval)
	case c.ShutdownTimeout <= 0:
		return fmt.Errorf("shutdown_timeout: %v, want a positive time", c.ShutdownTimeout)
	}
	return nil
}

// RefusedError ends a run under PolicyFail. The run can be continued from its
// checkpoint once the policy is another one or the record is dealt with.
type RefusedError struct {
	Topic     string
	Partition int32
	Offset    int64
	Refusal   event.Refusal
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s/%d offset %d: record refused (%s): %s", e.Topic, e.Partition, e.Offset, e.Refusal.Reason, e.Refusal.Detail)
}

// FinalError is an error of Runner.Save after which no later save may be tried.
type FinalError struct{ Err error }

func (e FinalError) Error() string { return e.Err.Error() }
func (e FinalError) Unwrap() error { return e.Err }

// Run learns until the Source ends, MaxEvents have come, ctx ends, or something
// fails. When it ends in the first three ways it saves and returns nil, within
// ShutdownTimeout; but a *FruitlessError, and nothing is saved at the end, where it
// hardly learned. When the Source fails, or a record under PolicyFail, it saves
// what it has learned and returns the error. When learning itself panics the
// state is not saved, for it may be broken, and the error names the record.
func (r *Runner) Run(ctx context.Context) error {
	if err := r.Config.Check(); err != nil {
		return err
	}
	if r.Config.Refused == PolicyDeadLetter && r.DeadLetters == nil {
		return errors.New("the policy for refused records is dead-letter, but there is no place for dead letters")
	}
	if r.Labels != nil && (r.Mislabeled != nil || r.Validator != nil && (r.Validator.Open != nil || r.Validator.Config.Policy == "adopt")) {
		return errors.New("events that wait for labels cannot be adopted from or kept as mislabeled, and are read again by OpenJoined")
	}
	if r.Labels != nil && r.Contest != nil {
		return errors.New("events that wait for labels are learned by one learner")
	}
	l := newLoop(r)
	defer func() { l.endPromotions(errors.New("the run has ended")) }()
	if err := l.startValidating(); err != nil {
		return err
	}
	if err := l.startAdopting(); err != nil {
		return err
	}
	l.warn(false)
	l.publish()
	l.report("")

	caller := ctx
	ctx, l.end = context.WithCancel(ctx)
	defer l.end()
	l.Learner.SetSchema(l.Learner.Schema().View()) // from now on the decoder works ahead
	l.beginContest()
	l.ahead = readAhead(ctx, l.Source, l.Contest)
	err := l.learn(ctx)
	if err == nil && ctx.Err() == nil && !r.Config.Fruitless {
		err = l.fruitless()
	}
	l.ahead.stop()
	l.endValidation(ctx, err)

	deadline, cancel := context.WithTimeout(context.Background(), r.Config.ShutdownTimeout)
	defer cancel()
	l.report("stopping")
	l.endSolving(deadline)
	if broken, fruitless := (*panicError)(nil), (*FruitlessError)(nil); errors.As(err, &broken) || errors.As(err, &fruitless) {
		err = errors.Join(err, l.endSaving(deadline)) // of what was learned before
	} else {
		err = errors.Join(err, l.saveAtEnd(deadline))
		l.warn(true)
		l.publish()
		end := "stopped"
		if err == nil && r.Config.KeepServing && caller.Err() == nil {
			end = Ended
		}
		l.report(end)
	}
	select {
	case <-l.ahead.done:
	case <-deadline.Done():
		l.log.Warn("the source does not stop; its reader is left behind", "after", r.Config.ShutdownTimeout)
	}
	return err
}

// Package run implements the loop that learns from a stream, and its jobs.
//
// The loop (loop.go) processes batches that are read ahead (ahead.go). An intake (intake.go) processes each record.
// A [Challengers] has more learners of the same stream, which learn in addition to the leader (challengers.go) and
// can replace it (promote.go).
//
// Jobs run on other goroutines: saving checkpoints (save.go), publishing models, and validating against
// the exact solution (validate.go). A job gets a frozen state and has no other access to the loop. Its result is
// processed on the loop's goroutine.
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

// Runner learns from a Source until the Source ends or the run is stopped. It saves the Learner's state together with
// its position in the stream in checkpoints.
//
// One goroutine reads and decodes ahead, and the caller of Run learns. A third goroutine encodes and writes a
// checkpoint while learning continues, and a fourth goroutine validates or solves; both work on copies of the state.
// All goroutines belong to Run and end before Run returns.
//
// The state after a number of events depends only on those events: saves, publications and batch boundaries change no
// weight. So a run that is killed and restarted from its last checkpoint ends in the same state, bit by bit, as an
// uninterrupted run. If there are several partitions, their order is not determined, but every record still counts
// once.
type Runner struct {
	Config Config
	Source event.Source
	State
	// Challengers has additional learners of the stream; it may be nil. Run updates it. A Challengers cannot be used together
	// with Labels.
	Challengers *Challengers
	Schema      *event.Schema // schema that the Source's decoder extends
	// Fingerprint has the settings, besides the Learner's, that determine the meaning of the weights: how records
	// become events. It is part of every checkpoint, and Resume compares it. A promotion replaces it by the new leader's.
	Fingerprint online.Fingerprint

	// Save writes a checkpoint durably and returns its name and size; nil disables saving. Run calls Save on a
	// goroutine, one call at a time. If Save returns an error, learning continues, and a later save is attempted. But a
	// FinalError ends the run, and nothing more is saved.
	Save func(blocks iter.Seq[event.Block]) (name string, size int64, err error)
	// Commit commits saved offsets to the broker, so that lag displays show them. An error is only logged. Commit may
	// be nil.
	Commit func(context.Context, event.Offsets) error
	// DeadLetters is required with PolicyDeadLetter.
	DeadLetters DeadLetters
	// Observe receives every new Status, on the goroutine of Run. It may be nil.
	Observe func(*Status)
	// Validator compares the live weights with the exact solution while learning continues, and selects the held-out
	// records. It may be nil. If its Open is nil, it only holds out records.
	Validator *validate.Validator
	// Labels is set if the Source is a labels.Merge, in which events wait for their labels. Runner does not close it.
	// If Labels is set, the run cannot validate by Open, which would read the events again.
	Labels *labels.Join
	// Saved describes the checkpoint from which the run continues: its name, bytes and time.
	Saved SaveStatus
	// Report receives a finished validation, on a goroutine of Run. It may be nil.
	Report func(*batch.Validation) error
	// Answer receives the prediction of each event before the event was learned, in order and on the goroutine of Run.
	// The prediction of a refused event is nil. A nil event marks the end of each batch. The slices are valid until
	// Answer returns. An error ends the run. Answer may be nil. With Labels it receives an event when its wait ends, with
	// the prediction from its arrival; its label is event.Unlabeled if none arrived.
	Answer func(e *event.Example, p *online.Prediction) error
	// Waits receives each event that begins to wait for its label, with its prediction. It may be nil.
	Waits func(e *event.Example, p *online.Prediction) error
	Log   *slog.Logger // nil disables the log
	// FirstVersion is the version of the first published Model. It must exceed the versions of all earlier runs, so
	// that versions never decrease.
	FirstVersion uint64

	status     atomic.Pointer[Status]
	published  atomic.Pointer[Published]
	asked      atomic.Uint64 // number of requests for published models
	validation atomic.Bool   // a validation was requested
	promotions promotions    // requested promotions
	unread     bool          // Published and Recent have no readers
	recent     recentRing
}

// State is the state from which a run continues. Run updates it, except for the Reservoir. Nothing else may use it
// during Run.
type State struct {
	Learner   *online.Learner
	Offsets   event.Offsets // position of the Learner's state in the stream
	Reservoir []byte        // encoded reservoir of a checkpoint, see validate.ReadReservoir
}

// Config has the settings for saving, publishing and stopping.
type Config struct {
	// Refused is the policy for records that cannot be used.
	Refused Policy
	// SaveEvents and SaveInterval are the number of records and the time after which a checkpoint is due; 0 disables
	// each. A final checkpoint is always written when the run ends or is stopped.
	SaveEvents   uint64
	SaveInterval time.Duration
	// PublishEvents and PublishInterval are the number of records and the time after which readers get a new Model; 0
	// disables each. Copying takes at most a twentieth of the time, so a large model is published less often.
	PublishEvents   uint64
	PublishInterval time.Duration
	// Unlabeled means that events without a label are intended: they count as learned. Fruitless disables the
	// FruitlessError.
	Unlabeled, Fruitless bool
	// MaxEvents ends the run after the given number of records; 0 means no limit.
	MaxEvents uint64
	// KeepServing continues to serve the model after the events have ended.
	KeepServing bool
	// Unnamed means that the configuration names no classes. Numeric labels may then be regression targets: see
	// NumbersError.
	Unnamed bool
	// LabelKeep is the number of checkpoints that are kept. The run keeps the events that were waiting for labels in
	// these checkpoints.
	LabelKeep int
	// ShutdownTimeout is the time limit for stopping: finishing the batch, the last save, the commit.
	ShutdownTimeout time.Duration
}

// DefaultConfig returns the settings of an empty configuration.
func DefaultConfig() Config {
	return Config{
		Refused:         PolicyDeadLetter,
		SaveEvents:      1_000_000,
		SaveInterval:    30 * time.Second,
		PublishInterval: time.Second,
		ShutdownTimeout: 10 * time.Second,
	}
}

// Policy determines how records that cannot be used are handled.
type Policy string

// The policies for refused records, which are always counted.
const (
	PolicyDeadLetter Policy = "dead-letter" // store the record as a dead letter, and continue
	PolicySkip       Policy = "skip"        // continue without the record
	PolicyFail       Policy = "fail"        // save the state before the record, and end with an error
)

// RefusedError ends a run under PolicyFail. The run can continue from its checkpoint after the policy is changed or the
// record is removed.
type RefusedError struct {
	Topic     string
	Partition int32
	Offset    int64
	Refusal   event.Refusal
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s/%d offset %d: record refused (%s): %s", e.Topic, e.Partition, e.Offset, e.Refusal.Reason, e.Refusal.Detail)
}

// FinalError is an error of Runner.Save after which nothing more may be saved.
type FinalError struct{ Err error }

func (e FinalError) Error() string { return e.Err.Error() }
func (e FinalError) Unwrap() error { return e.Err }

// Run learns until the Source ends, after MaxEvents, until ctx ends, or until a failure. In the first three cases it
// saves and returns nil, within ShutdownTimeout. If it has learned almost nothing, it saves nothing at the end and
// returns a *FruitlessError.
//
// If the Source fails, or a record is refused under PolicyFail, Run saves the learned state and returns the error. If
// learning panics, Run does not save the state, which may be inconsistent, and the error names the record.
func (r *Runner) Run(ctx context.Context) error {
	if r.Config.Refused == PolicyDeadLetter && r.DeadLetters == nil {
		return errors.New("the policy for refused records is dead-letter, but no topic or file for them is set")
	}
	if r.Labels != nil && r.Validator != nil && r.Validator.Open != nil {
		return errors.New("events that wait for labels are read again by OpenJoined")
	}
	if r.Labels != nil && r.Challengers != nil {
		return errors.New("events that wait for labels are learned by one learner")
	}
	l := newLoop(r)
	defer func() {
		ended := errors.New("the run has ended")
		answerPromotions(append(l.saver.promoting, l.promotions.take(ended)...), ended)
	}()
	if err := l.startValidating(); err != nil {
		return err
	}
	l.warn(false)
	l.publish()
	l.report("")

	caller := ctx
	ctx, l.end = context.WithCancel(ctx)
	defer l.end()
	l.Learner.SetSchema(l.Learner.Schema().View()) // a View, because the decoder reads ahead from now on
	for _, x := range l.Challengers.others() {
		x.Learner.SetSchema(x.Learner.Schema().View())
	}
	l.ahead = readAhead(ctx, l.Source, l.Challengers)
	err := l.learn(ctx)
	if err == nil && ctx.Err() == nil && !r.Config.Fruitless {
		err = l.fruitless()
	}
	l.ahead.stop()
	l.endValidation(ctx, err)

	deadline, cancel := context.WithTimeout(context.Background(), r.Config.ShutdownTimeout)
	defer cancel()
	l.report("stopping")
	if broken, fruitless := (*panicError)(nil), (*FruitlessError)(nil); errors.As(err, &broken) || errors.As(err, &fruitless) {
		err = errors.Join(err, l.endSaving(deadline)) // wait for the save of an earlier state
	} else {
		err = errors.Join(err, l.saveAtEnd(deadline))
		l.warn(true)
		l.sayReadings(true)
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
		l.log.Warn("the source does not stop; continuing without its reader", "after", r.Config.ShutdownTimeout)
	}
	return err
}

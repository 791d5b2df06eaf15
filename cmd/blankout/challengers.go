package main

// This file creates the learners of one stream: the learner of [learner] and the learners of [[challenger]].

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"blankout/app/run"
	"blankout/batch/validate"
	"blankout/config"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online"
	"blankout/serve"
	"blankout/stream/record"
)

// challenger is a learner of the stream, with its configuration.
type challenger struct {
	name        string
	config      online.Config
	record      record.Config
	own         bool // true if its columns differ from the columns of the first learner
	promote     string
	window      uint64
	fingerprint online.Fingerprint
}

// competing returns the learners of a configuration. The learner of [learner] is first. It can be promoted
// automatically if any challenger can.
func competing(c *config.Config, records record.Config, data string) []challenger {
	learned := func(l online.Config, r record.Config) online.Config {
		return l.Among(r.Declares(data), r.Grouped())
	}
	out := []challenger{{name: run.Champion, config: learned(c.Learner, records), record: records, promote: "manual"}}
	for i := range c.Challengers {
		x := &c.Challengers[i]
		r, own := x.RecordOf(records)
		out = append(out, challenger{name: x.Name, config: learned(x.Config, r), record: r, own: own, promote: x.Promote, window: x.Window})
		out[0].window = max(out[0].window, x.Window)
		if x.Promote == run.PromoteAuto {
			out[0].promote = run.PromoteAuto
		}
	}
	return out
}

// schema returns the Schema of a new challenger. If the challenger has its own Schema, this Schema has the classes of
// first, the Schema of the first learner.
func (x *challenger) schema(first *event.Schema) *event.Schema {
	if !x.own {
		return first
	}
	r := x.record
	r.Seed, r.Bits = first.Seed, first.Bits
	s := r.Schema()
	s.Classes, s.MaxClasses, s.Joined = slices.Clone(first.Classes), first.MaxClasses, slices.Clone(first.Joined)
	return s
}

// join adds the learner to a Challengers.
func (x *challenger) join(c *run.Challengers, l *online.Learner, s run.Standing) {
	s.Name, s.Promote, s.Window = x.name, x.promote, x.window
	c.All = append(c.All, &run.Challenger{Learner: l, Fingerprint: x.fingerprint, Standing: s})
}

// openLearners adds learners to a Runner: those in the blocks of a checkpoint, which are nil if there is none. A learner
// that is not in the checkpoint starts now. A learner that is no longer configured is dropped.
func openLearners(r *run.Runner, learners []challenger, blocks []event.Block, log *slog.Logger) error {
	saved, err := run.ReadChallengers(blocks)
	if err != nil {
		return err
	}
	leader := max(slices.IndexFunc(learners, func(x challenger) bool { return x.name == saved.Leader }), 0)
	renamed := learners[leader].name != saved.Leader
	r.Fingerprint = learners[leader].fingerprint
	if blocks == nil {
		r.Learner, err = online.New(learners[0].config, learners[0].record.Schema())
	} else {
		r.State, err = run.Resume(learners[leader].config, r.Fingerprint, blocks)
	}
	switch {
	case err != nil && blocks == nil:
		return err
	case err != nil && renamed:
		return fmt.Errorf("challenger %s is the leader, but the configuration has no [[challenger]] of that name: add it again, promote another learner first, or copy its settings to [learner]: %w", saved.Leader, err)
	case err != nil && leader > 0:
		return fmt.Errorf("challenger %s: %w; give it another name to start it again", saved.Leader, err)
	case err != nil:
		return err
	case renamed && blocks != nil:
		log.Info("[learner] continues the challenger that was the leader, because it has the same settings", "challenger", saved.Leader)
	}
	records := uint64(0)
	for _, p := range r.Offsets {
		records += p.Records
	}
	all := make([]*online.Learner, len(learners))
	all[leader] = r.Learner
	for i := range learners {
		under := event.BlocksUnder(blocks, run.ChallengerPrefix(learners[i].name))
		if i == leader || len(under) == 0 {
			continue
		}
		if all[i], err = run.ResumeLearner(learners[i].config, learners[i].fingerprint, under); err != nil {
			return fmt.Errorf("challenger %s: %w; give it another name to start it again", learners[i].name, err)
		}
	}
	for _, was := range saved.Learners {
		if i := slices.IndexFunc(learners, func(x challenger) bool { return x.name == was.Name }); i < 0 && was.Name != saved.Leader || i >= 0 && i == leader && renamed {
			log.Warn("a learner of the checkpoint is removed: it is no longer in the configuration", "challenger", was.Name)
		}
	}
	if all[0] == nil {
		return errors.New("the checkpoint contains challengers but not the learner of [learner]")
	}
	if r.Schema = all[0].Schema(); len(learners) == 1 {
		return nil
	}
	r.Challengers = &run.Challengers{Leader: leader}
	for i := range learners {
		x := &learners[i]
		name := x.name
		if i == leader {
			name = saved.Leader // name of the saved leader, whose settings [learner] now has
		}
		standing, known := saved.Standing(name)
		if all[i] == nil {
			if all[i], err = online.New(x.config, x.schema(r.Schema)); err != nil {
				return fmt.Errorf("challenger %s: %w", x.name, err)
			}
			if standing = run.NewStanding(records); blocks != nil {
				log.Info("a challenger starts", "challenger", x.name, "records", records)
			}
		} else if !known { // the checkpoint is of a single learner
			standing.Paired = run.NewStanding(records).Paired
		}
		if !x.own {
			all[i].SetSchema(r.Schema)
		}
		x.join(r.Challengers, all[i], standing)
	}
	return nil
}

// ownSchemas returns the Schemas of the learners that have their own columns.
func ownSchemas(r *run.Runner) (out []*event.Schema) {
	if r.Challengers != nil {
		for _, x := range r.Challengers.All[1:] {
			if s := x.Learner.Schema(); s != r.Schema {
				out = append(out, s)
			}
		}
	}
	return out
}

// decodeChallengers makes each learner with its own columns decode every record when it is read from the source.
func (s *service) decodeChallengers() {
	for i, x := range s.learners {
		if x.own {
			c := s.runner.Challengers.All[i]
			c.Schema = c.Learner.Schema()
			c.Decoder = laterDecoder(sync.OnceValues(func() (record.Decoder, error) {
				r := s.read
				r.Drop, r.Crosses, r.Groups, r.KeepValue = x.record.Drop, x.record.Crosses, x.record.Groups, false
				return record.NewDecoder(r, c.Schema)
			}))
		}
	}
}

// laterDecoder creates its decoder at its first record. The header of a file has been read by then.
type laterDecoder func() (record.Decoder, error)

func (made laterDecoder) Decode(ctx context.Context, r record.Record, e *event.Example) error {
	d, err := made()
	if err != nil {
		return err
	}
	return d.Decode(ctx, r, e)
}

// validateChallengers gives each learner a validator, which is used while that learner is the leader. The Runner gets
// the validator of the current leader.
func validateChallengers(r *run.Runner, learners []challenger, c *config.Config, data string, log *slog.Logger) {
	if r.Challengers == nil {
		return
	}
	for i, x := range r.Challengers.All {
		own := *c
		own.Record.Drop, own.Record.Crosses, own.Record.Groups = learners[i].record.Drop, learners[i].record.Crosses, learners[i].record.Groups
		x.Validator = newValidator(&own, data, log)
		x.Validator.Learner = x.Learner.Config()
	}
	r.Validator = r.Challengers.All[r.Challengers.Leader].Validator
}

// validators returns the validators of all learners.
func (s *service) validators() []*validate.Validator {
	if s.runner.Challengers == nil {
		return []*validate.Validator{s.runner.Validator}
	}
	var out []*validate.Validator
	for _, x := range s.runner.Challengers.All {
		out = append(out, x.Validator)
	}
	return out
}

// ownColumns returns the record settings of prediction requests for a learner: c with the columns of the learner.
func (s *service) ownColumns(learner string, c record.Config) record.Config {
	if i := slices.IndexFunc(s.learners, func(x challenger) bool { return x.name == learner }); i >= 0 && s.learners[i].own {
		c.Drop, c.Crosses, c.Groups = s.learners[i].record.Drop, s.learners[i].record.Crosses, s.learners[i].record.Groups
	}
	return c
}

// learnerOfBlock returns the name of the learner to which a checkpoint block challenger/NAME belongs. The leader
// has no such blocks.
func learnerOfBlock(name string) (learner string, ok bool) {
	parts := strings.SplitN(name, "/", 3)
	if len(parts) < 3 || run.ChallengerPrefix(parts[1]) != parts[0]+"/"+parts[1]+"/" {
		return "", false
	}
	return parts[0] + "/" + parts[1], true
}

// learnersOf returns the reports about the learners in a checkpoint, or nil if there is only one learner. The argument
// leader is the summary of the leader.
func learnersOf(blocks []event.Block, leader *online.Summary) (out []serve.LearnerReport, err error) {
	saved, err := run.ReadChallengers(blocks)
	if err != nil {
		return nil, err
	}
	for _, x := range saved.Learners {
		s, own, leads := leader, blocks, x.Name == saved.Leader
		if !leads {
			own = event.BlocksUnder(blocks, run.ChallengerPrefix(x.Name))
			if s, err = online.ReadSummary(own); err != nil {
				return nil, fmt.Errorf("challenger %s: %w", x.Name, err)
			}
		}
		m, err := model.ReadLinear(own)
		if err != nil {
			return nil, fmt.Errorf("challenger %s: %w", x.Name, err)
		}
		out = append(out, serve.NewLearnerReport(&x, leads, m.Events, s))
	}
	return out, nil
}

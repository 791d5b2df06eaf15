package config

// This file reads the tables [[challenger]], which configure further learners of the same stream.

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/BurntSushi/toml"

	"blankout/app/run"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/online"
	"blankout/stream/record"
)

// Challenger is one table [[challenger]]: an additional learner of the stream. Keys that the table does not set have
// their values in [learner] and [record].
type Challenger struct {
	Name string `toml:"name"`
	// Promote is "auto" if the challenger may become the leader without a request, otherwise "manual".
	Promote string `toml:"promote"`
	// Window is the number of records in each window of the comparison with the leader.
	Window uint64 `toml:"window"`
	online.Config
	Drop    []string            `toml:"drop"`
	Crosses [][2]string         `toml:"crosses"`
	Groups  map[string][]string `toml:"groups"`
}

// The values of Challenger.Promote.
const promoteManual, promoteAuto = "manual", run.PromoteAuto

const (
	defaultWindow = 100_000
	minWindow     = 10_000
	maxChallenger = 16 // largest number of challengers
	challengerKey = "challenger"
)

// RecordOf returns the challenger's record settings. The result own reports whether its events differ from the events
// of [learner].
func (c *Challenger) RecordOf(r record.Config) (of record.Config, own bool) {
	of = r
	of.Drop, of.Crosses, of.Groups = c.Drop, c.Crosses, c.Groups
	return of, !slices.Equal(c.Drop, r.Drop) || !slices.Equal(c.Crosses, r.Crosses) || of.GroupSettings() != r.GroupSettings()
}

// TakeLearner replaces the settings of [learner] in c by the settings of the challenger with this name. If there is no
// such challenger, c does not change.
func (c *Config) TakeLearner(name string) {
	for i := range c.Challengers {
		if x := &c.Challengers[i]; x.Name == name {
			c.Record, _ = x.RecordOf(c.Record)
			c.Learner = x.Config
		}
	}
}

// readChallengers decodes each table [[challenger]] over the current settings of the sections. Errors name the
// challenger, not the line.
func (l *Loaded) readChallengers(d *document) error {
	if n := len(d.challengers); n > maxChallenger {
		return fmt.Errorf("%s: %d challengers: want at most %d", l.file, n, maxChallenger)
	}
	var errs []error
	l.Challengers = nil
	for _, of := range d.challengers {
		c := Challenger{Promote: promoteManual, Window: defaultWindow, Config: l.Learner, Drop: l.Record.Drop, Crosses: l.Record.Crosses, Groups: l.Record.Groups}
		_ = d.meta.PrimitiveDecode(of["name"], &c.Name) // the path of the keys; decode reports the error
		origins, err := d.decode(c.path(), of, keys(c.path(), &c))
		maps.Copy(l.origins, origins)
		errs = append(errs, err)
		l.Challengers = append(l.Challengers, c)
	}
	return errors.Join(errs...)
}

// path returns the path of a key of the challenger.
func (c *Challenger) path(names ...string) toml.Key {
	return append(toml.Key{challengerKey, c.Name}, names...)
}

// challengerKeys lists the settings of all challengers.
func (l *Loaded) challengerKeys() (all []key) {
	for i := range l.Challengers {
		c := &l.Challengers[i]
		all = append(all, keys(c.path(), c)...)
	}
	return all
}

// checkChallengers returns the errors in the challengers. Each error names the challenger and the key.
func (l *Loaded) checkChallengers() error {
	var names []string
	for _, c := range l.Challengers {
		names = append(names, c.Name)
	}
	switch {
	case len(names) == 0:
		return nil
	case l.Group.Name != "":
		return fmt.Errorf("[[challenger]] %q: not supported in a group (group.name %q): remove the challengers, or unset group.name", names, l.Group.Name)
	case len(l.Labels.Topics) > 0:
		return fmt.Errorf("[[challenger]] %q: not supported with delayed labels (labels.topics): remove the challengers, or join the labels before learning", names)
	}
	var errs []error
	for i := range l.Challengers {
		c := &l.Challengers[i]
		if err := l.checkChallenger(c, names[:i]); err != nil {
			errs = append(errs, fmt.Errorf("%s[[challenger]] %q: %w", l.position(err, c.path()...), c.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (l *Loaded) checkChallenger(c *Challenger, before []string) error {
	switch {
	case !isName(c.Name):
		return event.KeyErrorf("name", "name %q: want 1 to 32 lower-case letters, digits, - and _", c.Name)
	case c.Name == run.Champion:
		return event.KeyErrorf("name", "name %q is reserved for [learner]: choose another", c.Name)
	case slices.Contains(before, c.Name):
		return event.KeyErrorf("name", "name %q is used twice", c.Name)
	case c.Promote != promoteManual && c.Promote != promoteAuto:
		return event.KeyErrorf("promote", "promote %q: want %s or %s", c.Promote, promoteManual, promoteAuto)
	case c.Window < minWindow || c.Window%1000 > 0:
		return event.KeyErrorf("window", "window %d: want a multiple of 1000 records, at least %d", c.Window, minWindow)
	}
	alone := l.Config
	alone.Challengers, alone.Learner = nil, c.Config
	alone.Record, _ = c.RecordOf(l.Record)
	if err := alone.checkLearner(); err != nil {
		return err
	}
	if err := alone.Record.Check(); err != nil {
		return err
	}
	switch {
	case loss.LabelsOf(c.Loss) != loss.LabelsOf(l.Learner.Loss):
		return event.KeyErrorf("loss", "loss %s: [learner] has %s; all learners must have classes, or all regression", c.Loss, l.Learner.Loss)
	case loss.OfCounts(c.Noise) != loss.OfCounts(l.Learner.Noise):
		return event.KeyErrorf("noise", "noise %s: [learner] has %s; use poisson for all learners or none, because it refuses negative features", c.Noise, l.Learner.Noise)
	}
	return alone.checkValidate()
}

var isName = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`).MatchString

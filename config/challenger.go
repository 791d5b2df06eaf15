package config

// This file reads the tables [[challenger]], which configure further learners of the same stream.

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

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

// readChallengers decodes each table [[challenger]] over the current settings of the sections, and then applies --set
// challenger.NAME.KEY. Errors name the challenger, not the line.
func (l *Loaded) readChallengers(sets []string) error {
	var all struct {
		Tables []map[string]any `toml:"challenger"`
	}
	if _, err := toml.Decode(l.text, &all); err != nil {
		return err
	}
	if len(all.Tables) > maxChallenger {
		return fmt.Errorf("%s: %d challengers: want at most %d", l.file, len(all.Tables), maxChallenger)
	}
	var errs []error
	l.Challengers = nil
	for _, table := range all.Tables {
		c := Challenger{Promote: promoteManual, Window: defaultWindow, Config: l.Learner, Drop: l.Record.Drop, Crosses: l.Record.Crosses, Groups: l.Record.Groups}
		name, _ := table["name"].(string)
		known := keys(&c)
		for _, k := range known {
			if valueOf(table, k.path) == nil {
				continue
			}
			l.origins[challengerKey+"."+name+"."+k.String()] = l.file
			if kind := k.value.Kind(); kind == reflect.Slice || kind == reflect.Map {
				k.value.SetZero() // TOML would be decoded into the values of the sections
			}
		}
		var text bytes.Buffer
		err := toml.NewEncoder(&text).Encode(table)
		if err == nil {
			err = decodeFile(func(int) string { return fmt.Sprintf("%s: [[challenger]] %q", l.file, name) }, text.String(), &c)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		l.Challengers = append(l.Challengers, c)
	}
	for _, flag := range sets {
		if err := l.setChallenger(flag); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// setChallenger applies --set challenger.NAME.KEY=VALUE to a challenger.
func (l *Loaded) setChallenger(flag string) error {
	path, value, ok := strings.Cut(flag, "=")
	parts := strings.Split(path, ".")
	if !ok || len(parts) != 3 {
		return fmt.Errorf("--set %s: want challenger.NAME.KEY=VALUE", path)
	}
	i := slices.IndexFunc(l.Challengers, func(c Challenger) bool { return c.Name == parts[1] })
	if i < 0 {
		return fmt.Errorf("--set %s: no challenger %q: the file has [[challenger]] %q", path, parts[1], l.challengerNames())
	}
	known := keys(&l.Challengers[i])
	k := slices.IndexFunc(known, func(k key) bool { return k.String() == parts[2] && parts[2] != "name" })
	if k < 0 {
		return fmt.Errorf("--set %s: unknown key%s", path, suggest(parts[2], known))
	}
	l.origins[path] = "--set"
	return known[k].set(known[k].unquoted(value), "--set "+path)
}

func (c *Config) challengerNames() []string {
	names := make([]string, len(c.Challengers))
	for i := range names {
		names[i] = c.Challengers[i].Name
	}
	return names
}

// checkChallengers returns the errors in the challengers. Each error names the challenger and the key.
func (l *Loaded) checkChallengers() error {
	if len(l.Challengers) == 0 {
		return nil
	}
	var errs []error
	why := ""
	switch {
	case l.Group.Name != "":
		why = fmt.Sprintf("not supported in a group (group.name %q): remove the challengers, or unset group.name", l.Group.Name)
	case len(l.Labels.Topics) > 0:
		why = "not supported with delayed labels (labels.topics): remove the challengers, or join the labels before learning"
	}
	if why != "" {
		return fmt.Errorf("[[challenger]] %q: %s", l.challengerNames(), why)
	}
	for i := range l.Challengers {
		c := &l.Challengers[i]
		if err := l.checkChallenger(c, l.Challengers[:i]); err != nil {
			origin := l.file
			if e, ok := errors.AsType[*event.KeyError](err); ok {
				origin = cmp.Or(l.origins[challengerKey+"."+c.Name+"."+e.Key], origin)
			}
			errs = append(errs, fmt.Errorf("%s: [[challenger]] %q: %w", origin, c.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (l *Loaded) checkChallenger(c *Challenger, before []Challenger) error {
	switch {
	case !isName(c.Name):
		return event.KeyErrorf("name", "name %q: want 1 to 32 lower-case letters, digits, - and _", c.Name)
	case c.Name == run.Champion:
		return event.KeyErrorf("name", "name %q is reserved for [learner]: choose another", c.Name)
	case slices.ContainsFunc(before, func(b Challenger) bool { return b.Name == c.Name }):
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

func isName(name string) bool {
	return len(name) >= 1 && len(name) <= 32 && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_'
	})
}

// ofChallenger reports whether a setting belongs to a challenger.
func ofChallenger(flag string) bool { return strings.HasPrefix(flag, challengerKey+".") }

// shownKey is a key with the header of its table and the origin of its value.
type shownKey struct {
	path   string
	table  string
	key    key
	origin string
}

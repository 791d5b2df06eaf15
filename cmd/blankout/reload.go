package main

// A service reads its configuration again when it is told to.

import (
	"log/slog"
	"maps"
	"reflect"
	"slices"

	"blankout/config"
)

// setLevel has logs leave out what lies below the level; --quiet leaves out more.
func (p *program) setLevel(level slog.Level) {
	if p.quiet {
		level = max(level, slog.LevelWarn)
	}
	p.level.Set(level)
}

// reloads has a service that was started with a configuration file, away from a terminal,
// read it again at every SIGHUP, until the stop that it returns. log.level takes
// effect; other keys that have changed are named, with the advice to restart. SIGHUP stops
// a service that has no file to read, or whose terminal is gone.
func (p *program) reloads(file string, now *config.Loaded, load func() (*config.Loaded, error), log *slog.Logger) (stop func()) {
	if file == "" || isTerminal(p.stderr) {
		return func() {}
	}
	return onReloadSignal(func() {
		newer, err := load()
		if err != nil {
			log.Error("the configuration cannot be read again; the previous one remains in force", "err", err)
			return
		}
		before, err := now.Values()
		if err == nil {
			var after map[string]config.Shown
			if after, err = newer.Values(); err == nil {
				p.setLevel(min(p.level.Level(), newer.Log.Level)) // so that this is read at either
				log.Info("configuration read again", "file", file, "log.level", newer.Log.Level)
				if changed := changedKeys(before, after); len(changed) > 0 {
					log.Warn("these keys have changed and take effect at the next start", "keys", changed)
				}
				p.setLevel(newer.Log.Level)
			}
		}
		if err != nil {
			log.Error("the configuration cannot be compared", "err", err)
		}
	})
}

// changedKeys returns the keys whose values differ and are not taken up while a service
// runs, in order.
func changedKeys(before, after map[string]config.Shown) (changed []string) {
	all := maps.Clone(after)
	maps.Copy(all, before) // of a challenger that is there no more
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if key != "log.level" && !reflect.DeepEqual(before[key].Value, after[key].Value) {
			changed = append(changed, key)
		}
	}
	return changed
}

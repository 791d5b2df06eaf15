package main

// This file lets a service read its configuration again on request.

import (
	"log/slog"
	"maps"
	"reflect"
	"slices"

	"blankout/config"
)

// setLevel hides log lines below the level. The flag --quiet may hide more lines.
func (p *program) setLevel(level slog.Level) {
	if p.quiet {
		level = max(level, slog.LevelWarn)
	}
	p.level.Set(level)
}

// reloads makes a service read its configuration file again at every SIGHUP, until the returned function is called. A
// new log.level takes effect. Other changed keys are logged with the advice to restart. A service without a
// configuration file is stopped by SIGHUP, as is a service whose terminal was closed.
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
				p.setLevel(min(p.level.Level(), newer.Log.Level)) // so that the message is visible at the old and the new level
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

// changedKeys returns the sorted keys whose values differ. It omits keys that take effect while a service runs.
func changedKeys(before, after map[string]config.Shown) (changed []string) {
	all := maps.Clone(after)
	maps.Copy(all, before) // includes keys of a challenger that no longer exists
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if key != "log.level" && !reflect.DeepEqual(before[key].Value, after[key].Value) {
			changed = append(changed, key)
		}
	}
	return changed
}

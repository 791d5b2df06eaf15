package serve

// This file stores the history of a run for the web page: its state at even intervals, and its events.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"blankout/app/run"
)

// history stores the state of a run at even intervals. A full history drops every other point and doubles the interval,
// so it always covers the whole run. A file preserves the history across restarts. Learning does not depend on the
// history.
type history struct {
	mu sync.Mutex
	remembered
	ticks int
	last  happened
}

// remembered is the JSON form of a history in its file.
type remembered struct {
	Format int     `json:"format"` // always historyFormat
	Every  int     `json:"every"`  // number of ticks between two points
	Points []Point `json:"points"`
	Marks  []mark  `json:"marks"`
}

// mark is an event in the history of a run.
type mark struct {
	Time int64  `json:"t"`    // time in milliseconds since 1970
	Kind string `json:"kind"` // kind: start, drift, field, promoted or stop
	Text string `json:"text"` // description in one sentence
}

const (
	historyFormat = 1
	historyPoints = 600
	historyMarks  = 100
	tickInterval  = time.Second
	keepInterval  = time.Minute // time between two writes of the file
)

// happened holds the part of a run's status at the last call of note from which marks are derived. A change of this
// part gives a mark.
type happened struct {
	started             bool
	stopped             bool
	drifts, fieldAlarms uint64
	leader              string // name of the leader, if there are several
}

// open continues from the history in a file, if the file exists. If the file contains no valid history, open returns an
// error and the history starts empty.
func (h *history) open(name string) error {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var r remembered
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err == nil && (r.Format != historyFormat || r.Every < 0 || len(r.Points) > historyPoints || len(r.Marks) > historyMarks) {
		err = fmt.Errorf("format %d with %d points: this program reads format %d", r.Format, len(r.Points), historyFormat)
	}
	if err != nil {
		return fmt.Errorf("the page's history %s cannot be read and restarts: %w", name, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remembered = r
	return nil
}

// write replaces the file with the current history.
func (h *history) write(name string) error {
	h.mu.Lock()
	h.Format = historyFormat
	data, err := json.Marshal(h.remembered)
	h.mu.Unlock()
	if err != nil {
		return err
	}
	if err := replaceFile(name, data); err != nil {
		return fmt.Errorf("keeping the page's history: %w", err)
	}
	return nil
}

// replaceFile replaces a file by a line of text.
func replaceFile(name string, line []byte) error {
	if err := os.WriteFile(name+".tmp", append(line, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".tmp", name)
}

func (h *history) tick(s *collector) {
	v := s.view()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note(v.status)
	if h.ticks++; h.ticks%max(h.Every, 1) != 0 {
		return
	}
	if len(h.Points) == historyPoints {
		for i := range historyPoints / 2 {
			h.Points[i] = h.Points[2*i+1]
		}
		h.Points = h.Points[:historyPoints/2]
		if h.Every = 2 * max(h.Every, 1); h.ticks%h.Every != 0 {
			return
		}
	}
	h.Points = append(h.Points, pointOf(v))
}

// note adds marks for the changes of s since the last call.
func (h *history) note(s *run.Status) {
	now := happened{
		started: !s.Started.IsZero(), stopped: s.NotReady == "stopped" || s.NotReady == run.Ended,
		drifts: s.DriftAlarms, fieldAlarms: s.FieldAlarms,
	}
	for i := range s.Challengers {
		if s.Challengers[i].Leader {
			now.leader = s.Challengers[i].Name
		}
	}
	before := h.last
	h.last = now
	add := func(kind, format string, args ...any) {
		if len(h.Marks) == historyMarks {
			h.Marks = h.Marks[:copy(h.Marks, h.Marks[1:])]
		}
		h.Marks = append(h.Marks, mark{time.Now().UnixMilli(), kind, fmt.Sprintf(format, args...)})
	}
	if now.started && !before.started {
		add("start", "started, with %d events learned before", s.Learner.Events-s.Learned-s.Unlabeled)
	}
	if now.drifts > before.drifts {
		d := s.Learner.Drift
		add("drift", "drift at event %d: log-loss %.3f → %.3f nats", d.Event, d.Before, d.After)
	}
	if now.fieldAlarms > before.fieldAlarms {
		if text := worstAlarm(s.Learner.Health); text != "" {
			add("field", "%s", text)
		}
	}
	if now.leader != before.leader && before.leader != "" {
		add("promoted", "%s is now the leader, before it was %s", now.leader, before.leader)
	}
	if now.stopped && !before.stopped && now.started {
		add("stop", "stopped")
	}
}

// copy returns the points and the marks so far.
func (h *history) copy() ([]Point, []mark) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Point{}, h.Points...), append([]mark{}, h.Marks...)
}

// watch updates the history until the site is closed.
func (s *site) watch(log *slog.Logger) {
	if s.service.OnDisk {
		return
	}
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	written := time.Now()
	for closing := false; !closing; {
		select {
		case <-s.closing:
			closing = true
		case <-tick.C:
		}
		s.history.tick(s.collector)
		if s.service.History == "" || !closing && time.Since(written) < keepInterval {
			continue
		}
		written = time.Now()
		if err := s.history.write(s.service.History); err != nil {
			log.Warn("the page's history cannot be saved: it restarts after a restart of the program", "err", err)
		}
	}
}

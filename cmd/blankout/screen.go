package main

// This file implements the progress line on a terminal.

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"golang.org/x/term"

	"blankout/app/run"
	"blankout/internal/event"
	"blankout/internal/measure"
)

// screen is standard error with a progress line at the bottom that is overwritten. If standard error is not a terminal,
// the progress is an ordinary line at intervals. All other output, including the log, is written through the method
// Write. A screen is safe for concurrent use.
type screen struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	every    time.Duration // time between progress lines; 0 writes none
	last     time.Time
	line     string // current progress line, or ""
}

// newScreen returns the screen of p, without progress lines if p is quiet. On a terminal the progress line is written
// five times a second, otherwise every logEvery.
func (p *program) newScreen(logEvery time.Duration) *screen {
	s := &screen{w: p.stderr, terminal: isTerminal(p.stderr), every: logEvery, last: time.Now()}
	if s.terminal {
		s.every = 200 * time.Millisecond
	}
	if p.quiet {
		s.every = 0
	}
	return s
}

// Write writes text above the progress line.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	n, err := s.w.Write(b)
	s.draw()
	return n, err
}

// due reports whether a new progress line is due. If so, it sets the time of the next line.
func (s *screen) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.every == 0 || now.Sub(s.last) < s.every {
		return false
	}
	s.last = now
	return true
}

// progress shows a new progress line.
func (s *screen) progress(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.show(line)
}

// done shows the last progress line and keeps it.
func (s *screen) done(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.every == 0 {
		return
	}
	s.show(line)
	if s.terminal {
		fmt.Fprintln(s.w)
	}
	s.line, s.last = "", time.Now()
}

func (s *screen) show(line string) {
	line = event.Printable(line)
	if !s.terminal {
		fmt.Fprintln(s.w, line)
		return
	}
	s.erase()
	s.line = line
	s.draw()
}

func (s *screen) erase() {
	if s.line != "" {
		io.WriteString(s.w, "\r\x1b[K")
	}
}

func (s *screen) draw() {
	if s.line == "" {
		return
	}
	line := s.line
	if f, ok := s.w.(interface{ Fd() uintptr }); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && len(line) >= width {
			line = line[:width-1]
		}
	}
	io.WriteString(s.w, line)
}

// learning measures the progress of a run between two calls of look.
type learning struct {
	at     time.Time
	events uint64
}

// look returns the state of a run as the names and values of a log line. The rate in the state is measured since the
// previous call of look.
func (l *learning) look(s *run.Status) []any {
	if l.at.IsZero() {
		l.at = s.Started
	}
	events, now := s.Learned+s.Unlabeled, time.Now()
	out := []any{"events", events, "events_per_second", int64(float64(events-l.events) / max(now.Sub(l.at).Seconds(), 1e-3))}
	l.at, l.events = now, events
	if x := s.Learner.Total.Error(); !math.IsNaN(x) {
		out = append(out, "error_percent", round(100*x, 2), "error_percent_lately", round(100*s.Learner.Window.Error(), 2))
	}
	var n measure.NumbersReport
	if s.Learner.Numbers != nil {
		n = s.Learner.Numbers.Report()
	}
	b := s.Learner.Baselines.Report(s.Learner.Numbers != nil)
	for _, x := range []struct {
		name  string
		value *float64
	}{
		{"mae", n.MAE}, {"rmse", n.RMSE}, {"r2", n.R2}, {"baseline_mean_mae", b.MeanMAE}, {"baseline_last_mae", b.LastMAE},
		{"baseline_majority_error", b.MajorityError}, {"baseline_prior_log_loss", b.PriorLogLoss}, {"baseline_last_error", b.LastError}, {"model_mae", b.ModelMAE}, {"model_error", b.ModelError},
	} {
		if x.value != nil {
			rounded, _ := strconv.ParseFloat(strconv.FormatFloat(*x.value, 'g', 5, 64), 64)
			if strings.HasSuffix(x.name, "_error") { // percent
				rounded = round(*x.value, 2)
			}
			out = append(out, x.name, rounded)
		}
	}
	if lag := run.Lag(s.Partitions); lag >= 0 {
		out = append(out, "lag", lag)
	}
	passed := s.Passed()
	if out = append(out, "refused", s.Refused-passed); passed > 0 { // tombstones and repeated events
		out = append(out, "passed_over", passed)
	}
	if s.NotReady != "" {
		out = append(out, "last_error", s.NotReady)
	}
	return out
}

// progressOf returns the final state of a run. The rate in the state is measured since the start of the run.
func progressOf(s *run.Status) []any {
	ended := *s
	ended.NotReady = ""
	return new(learning).look(&ended)
}

// progressForms has the forms of the values of a progress line. Values without a form are only in the log.
var progressForms = map[string]string{
	"events": "%s events", "events_per_second": "%s/s", "error_percent": "error %s %%", "error_percent_lately": "lately %s %%",
	"mae": "MAE %s", "baseline_mean_mae": "that of the mean %s", "baseline_last_mae": "of the last label %s",
	"baseline_majority_error": "majority class %s %%", "baseline_last_error": "last label %s %%",
	"lag": "lag %s", "refused": "%s refused", "last_error": "%s",
}

// progressText formats the state of a run as a line of text.
func progressText(state []any) string {
	var parts []string
	for i := 0; i < len(state); i += 2 {
		form, value := progressForms[state[i].(string)], fmt.Sprint(state[i+1])
		if form == "" || state[i] == "refused" && value == "0" {
			continue
		}
		parts = append(parts, fmt.Sprintf(form, numberText(json.Number(value))))
	}
	return strings.Join(parts, "  ")
}

// plural formats a count with a noun whose plural is regular.
func plural(n int, name string) string {
	return humanize.Comma(int64(n)) + " " + english.PluralWord(n, name, "")
}

// round returns x with the given number of decimals.
func round(x float64, decimals int) float64 {
	unit := math.Pow10(decimals)
	return math.Round(x*unit) / unit
}

// percent formats a number in percent with its significant digits.
func percent(x float64) string {
	switch {
	case math.IsNaN(x):
		return "?"
	case x >= 9.95:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

package main

// This file implements the progress line on a terminal.

import (
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"golang.org/x/term"

	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/run"
	"blankout/online/health"
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

// progress is the state of a run at one time.
type progress struct {
	events, rate  int64
	error, lately float64                // progressive error, overall and recent, in percent; NaN without labeled events
	lag           int64                  // number of records behind the end; -1 if unknown
	refused       int64                  // number of records that cannot be used
	passedOver    int64                  // number of records that are not events, or are repeated
	lastError     string                 // reason why the run is not consuming
	numbers       *measure.NumbersReport // measures for regression
	baselines     health.BaselineReport
	final         bool // the run has ended, so the baselines are shown too
}

// look returns the state of a run. The rate in the state is measured since the previous call of look.
func (l *learning) look(s *run.Status) progress {
	if l.at.IsZero() {
		l.at = s.Started
	}
	events, now := s.Learned+s.Unlabeled, time.Now()
	p := progress{
		events: int64(events), rate: int64(float64(events-l.events) / max(now.Sub(l.at).Seconds(), 1e-3)),
		error: 100 * s.Learner.Total.Error(), lately: 100 * s.Learner.Window.Error(),
		lag: -1, refused: int64(s.Refused), lastError: s.NotReady,
	}
	p.passedOver = int64(passedOver(s.RefusedBy))
	p.refused -= p.passedOver
	p.baselines = s.Learner.Baselines.Report(s.Learner.Numbers != nil)
	if n := s.Learner.Numbers; n != nil {
		all := n.Report()
		p.numbers = &measure.NumbersReport{MAE: all.MAE, RMSE: all.RMSE, R2: all.R2}
	}
	l.at, l.events = now, events
	for _, partition := range s.Partitions {
		if n := partition.Lag(); n >= 0 {
			p.lag = max(p.lag, 0) + n
		}
	}
	return p
}

// progressOf returns the state of a run. The rate in the state is measured since the start of the run.
func progressOf(s *run.Status) progress {
	var l learning
	p := l.look(s)
	p.lastError, p.final = "", true
	return p
}

// passedOver returns the number of records that are not events, or are repeated.
func passedOver(by map[event.Reason]uint64) (n uint64) {
	for reason, count := range by {
		if !reason.Faulty() {
			n += count
		}
	}
	return n
}

// String formats the progress as text.
func (p progress) String() string {
	parts := []string{humanize.Comma(p.events) + " events", humanize.Comma(p.rate) + "/s"}
	if !math.IsNaN(p.error) {
		text := fmt.Sprintf("error %s %%, lately %s %%", percent(p.error), percent(p.lately))
		if p.final {
			text += baselinesLine(p.baselines)
		}
		parts = append(parts, text)
	}
	if p.numbers != nil && p.numbers.MAE != nil {
		parts = append(parts, numbersLine(*p.numbers)+baselinesLine(p.baselines))
	}
	if p.lag >= 0 {
		parts = append(parts, "lag "+humanize.Comma(p.lag))
	}
	if p.refused > 0 {
		parts = append(parts, humanize.Comma(p.refused)+" refused")
	}
	if p.lastError != "" {
		parts = append(parts, p.lastError)
	}
	return strings.Join(parts, "  ")
}

// log formats the progress for a log line.
func (p progress) log() []any {
	out := []any{"events", p.events, "events_per_second", p.rate}
	if !math.IsNaN(p.error) {
		out = append(out, "error_percent", hundredths(p.error), "error_percent_lately", hundredths(p.lately))
	}
	var n measure.NumbersReport
	if p.numbers != nil {
		n = *p.numbers
	}
	b := &p.baselines
	for _, x := range []struct {
		name  string
		value *float64
	}{{"mae", n.MAE}, {"rmse", n.RMSE}, {"r2", n.R2}, {"baseline_mean_mae", b.MeanMAE}, {"baseline_last_mae", b.LastMAE}} {
		if x.value != nil {
			out = append(out, x.name, *x.value)
		}
	}
	for _, x := range []struct {
		name  string
		value *float64
	}{
		{"baseline_majority_error", b.MajorityError}, {"baseline_prior_log_loss", b.PriorLogLoss}, {"baseline_last_error", b.LastError},
	} {
		if x.value != nil {
			out = append(out, x.name, math.Round(1e4**x.value)/1e4)
		}
	}
	if p.lag >= 0 {
		out = append(out, "lag", p.lag)
	}
	out = append(out, "refused", p.refused)
	if p.passedOver > 0 { // passedOver counts tombstones and repeated events
		out = append(out, "passed_over", p.passedOver)
	}
	if p.lastError != "" {
		out = append(out, "last_error", p.lastError)
	}
	return out
}

// plural formats a count with a noun whose plural is regular.
func plural(n int, name string) string {
	return humanize.Comma(int64(n)) + " " + english.PluralWord(n, name, "")
}

func hundredths(x float64) float64 { return math.Round(100*x) / 100 }

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

package main

// This file writes the tables of progressive errors.

import (
	"fmt"

	"blankout/online"
)

// streams are learned in one pass, from the first to the last event.
var streams = []struct {
	name    string
	classes int
}{{"elec2", 2}, {"sea", 2}, {"spam_stream", 2}, {"gas_drift", 6}, {"airlines_50k", 2}, {"talkingdata_clicks", 2}}

// progressive has the measures of one pass. The measures auc and logLoss are for two classes only.
type progressive struct{ wrong, logLoss, auc float64 }

func (p progressive) String() string { return fmt.Sprintf("%.2f", 100*p.wrong) }

// rare returns the log-loss and the AUC as text. These measures are for streams with a rare class, because the error of
// such a stream is not informative.
func (p progressive) rare() string { return fmt.Sprintf("%.4f / %.3f", p.logLoss, p.auc) }

func measure(s *set, c online.Config) (progressive, *online.Learner) {
	l := newOnline(c, s.schema)
	var binary []scored // for two classes: scores before each event was learned
	for i := range s.examples {
		if f := l.Learn(&s.examples[i], nil).Scores; len(f) == 1 {
			binary = append(binary, scored{f[0], s.examples[i].Label == 1})
		}
	}
	m := l.Report().Total
	p := progressive{wrong: m.Error(), logLoss: m.MeanLogLoss()}
	if len(binary) > 0 {
		p.auc = measures(binary).auc
	}
	return p, l
}

// streams compares the default configuration with the peers, and with the baseline that predicts the previous label.
func (c *comparison) streams() error {
	fmt.Fprint(c.w, "## Progressive error of one pass, %\n\nEvery event is scored before it is learned. talkingdata_clicks has 0.2 % positives: log-loss / AUC.\n\n")
	peers := c.streamPeers()
	columns := []string{"stream", "blankout", "level"}
	for _, p := range peers {
		columns = append(columns, p.name)
	}
	c.header(append(columns, "last label")...)
	for _, d := range streams {
		path := c.path(d.name, "stream.svm.gz")
		s, err := load(path, d.classes)
		if err != nil {
			return err
		}
		ours, l := measure(s, online.DefaultConfig())
		show := progressive.String
		if d.name == "talkingdata_clicks" {
			show = progressive.rare
		}
		fmt.Fprintf(c.w, "| %s | %s | %s |", d.name, show(ours), l.Report().Level)
		for _, p := range peers {
			m, err := p.run(s, path)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", p.name, d.name, err)
			}
			fmt.Fprintf(c.w, " %s |", show(m))
		}
		same := 0
		for i := range s.examples[1:] {
			if s.examples[i].Label != s.examples[i+1].Label {
				same++
			}
		}
		fmt.Fprintf(c.w, " %.2f |\n", 100*float64(same)/float64(len(s.examples)))
	}
	fmt.Fprintln(c.w)
	return nil
}

package main

// This file writes the tables of progressive errors.

import (
	"fmt"

	"blankout/online"
	"blankout/papers/comparators"
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

func measure(s *set, c online.Config) (progressive, *learned, error) {
	l, err := learn(s, c, 1)
	if err != nil {
		return progressive{}, nil, err
	}
	m := l.Report().Total
	p := progressive{wrong: m.Error(), logLoss: m.MeanLogLoss()}
	if len(l.scored) > 0 {
		_, _, p.auc = measures(l.scored)
	}
	return p, l, nil
}

// streams compares the default configuration with the peers, and with the baseline that predicts the previous label.
func (c *comparison) streams() error {
	fmt.Fprint(c.w, "## Progressive error of one pass, %\n\nEvery event is scored before it is learned. talkingdata_clicks has 0.2 % positives: log-loss / AUC.\n\n")
	peers := c.streamPeers()
	fmt.Fprint(c.w, "| stream | blankout | level |")
	for _, p := range peers {
		fmt.Fprintf(c.w, " %s |", p.name)
	}
	fmt.Fprint(c.w, " last label |\n|---|---|---|")
	for range peers {
		fmt.Fprint(c.w, "---|")
	}
	fmt.Fprint(c.w, "---|\n")
	for _, d := range streams {
		path := c.path(d.name, "stream.svm.gz")
		s, err := load(path, d.classes)
		if err != nil {
			return err
		}
		ours, l, err := measure(s, online.DefaultConfig())
		if err != nil {
			return err
		}
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

// rules compares our own optimizers, without noise and with the usual settings of each optimizer.
func (c *comparison) rules() error {
	configs := []struct {
		name string
		set  func(*online.Config)
	}{
		{"default", func(*online.Config) {}},
		{"no noise", func(c *online.Config) { c.Noise = "none" }},
		{"dropout .1", func(c *online.Config) { c.Noise = "dropout:0.1" }},
		{"dropout .5", func(c *online.Config) { c.Noise = "dropout:0.5" }},
		{"AdaGrad, plain", func(c *online.Config) { c.Optimizer, c.Noise, c.Average, c.Adapt = "adagrad", "none", 0, false }},
		{"dropout descent, noisy gradient", func(c *online.Config) { c.Optimizer, c.Noise = "dropout-descent", "dropout:0.1" }},
		{"SGD", func(c *online.Config) {
			c.Use(comparators.SGD)
			c.Noise = "none"
		}},
		{"AROW", func(c *online.Config) {
			c.Use(comparators.AROW)
			c.Noise, c.Loss = "none", "hinge"
		}},
		{"FTRL", func(c *online.Config) { c.Optimizer, c.Noise = "ftrl", "none" }},
	}
	fmt.Fprint(c.w, "## Our own optimizers, progressive error of one pass, %\n\n| stream |")
	for _, x := range configs {
		fmt.Fprintf(c.w, " %s |", x.name)
	}
	fmt.Fprint(c.w, "\n|---|")
	for range configs {
		fmt.Fprint(c.w, "---|")
	}
	fmt.Fprintln(c.w)
	for _, d := range streams {
		s, err := load(c.path(d.name, "stream.svm.gz"), d.classes)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.w, "| %s |", d.name)
		for _, x := range configs {
			config := online.DefaultConfig()
			x.set(&config)
			m, _, err := measure(s, config)
			if err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
			if d.name == "talkingdata_clicks" {
				fmt.Fprintf(c.w, " %s |", m.rare())
				continue
			}
			fmt.Fprintf(c.w, " %s |", m)
		}
		fmt.Fprintln(c.w)
	}
	fmt.Fprintln(c.w)
	return nil
}

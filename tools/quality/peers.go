package main

// This file runs the peers: Vowpal Wabbit, River and LIBLINEAR.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"blankout/internal/event"
)

// streamPeer is another program that learns streams, with a function that makes one pass.
type streamPeer struct {
	name string
	run  func(s *set, path string) (progressive, error)
}

func (c *comparison) streamPeers() []streamPeer {
	var peers []streamPeer
	if c.vw != "" {
		for _, x := range [][]string{{"VW"}, {"VW, squared loss", "squared"}, {"VW --coin", "--coin"}, {"VW --ftrl", "--ftrl"}} {
			peers = append(peers, streamPeer{x[0], func(s *set, _ string) (progressive, error) { return c.vwStream(s, x[1:]) }})
		}
	}
	if c.python != "" {
		peers = append(peers, streamPeer{"River StandardScaler + LR", c.river})
	}
	return peers
}

// command runs a command and returns its standard output.
func command(name string, args ...string) ([]byte, error) {
	x := exec.Command(name, args...)
	var stderr bytes.Buffer
	x.Stderr = &stderr
	out, err := x.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(x.Args, " "), err, stderr.Bytes())
	}
	return out, nil
}

func (c *comparison) river(_ *set, path string) (progressive, error) {
	out, err := command(c.python, filepath.Join(c.scripts, "river_stream.py"), path)
	if err != nil {
		return progressive{}, err
	}
	var r struct {
		Error   float64  `json:"error"`
		LogLoss *float64 `json:"log_loss"`
		AUC     *float64 `json:"auc"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return progressive{}, err
	}
	p := progressive{wrong: r.Error / 100}
	if r.AUC != nil {
		p.logLoss, p.auc = *r.LogLoss, *r.AUC
	}
	return p, nil
}

// vwOptions returns VW's options for a set. It adds the logistic loss if options contain no loss, and one-against-all
// for more than two classes.
func vwOptions(s *set, options []string) []string {
	loss := "logistic"
	var out []string
	for _, o := range options {
		if o == "squared" {
			loss = o
			continue
		}
		out = append(out, o)
	}
	if k := s.schema.Outputs(); k > 1 {
		out = append(out, "--oaa", strconv.Itoa(k))
	}
	return append(out, "--loss_function", loss, "--quiet")
}

func (c *comparison) vwStream(s *set, options []string) (progressive, error) {
	data, predictions := filepath.Join(c.work, s.name+".vw"), filepath.Join(c.work, "predictions")
	if _, err := os.Stat(data); err != nil {
		if err := writeText(data, s, true); err != nil {
			return progressive{}, err
		}
	}
	if _, err := command(c.vw, append(vwOptions(s, options), "-d", data, "-p", predictions)...); err != nil {
		return progressive{}, err
	}
	return predicted(predictions, s, true)
}

// predicted reads the predictions of a peer, one per line. VW writes scores or, for more than two classes, the class
// counted from 1. LIBLINEAR writes the class as in the set.
func predicted(name string, s *set, vw bool) (progressive, error) {
	var binary []scored
	i, wrong := 0, 0
	err := eachPrediction(name, len(s.examples), func(words []string) error {
		x, err := strconv.ParseFloat(words[0], 64)
		label := s.examples[i].Label
		i++
		switch {
		case vw && s.schema.Outputs() == 1:
			binary = append(binary, scored{x, label == 1})
		case vw && int(x) != label+1, !vw && int(x) != label:
			wrong++
		}
		return err
	})
	if err != nil || len(binary) == 0 {
		return progressive{wrong: float64(wrong) / float64(i)}, err
	}
	return measures(binary), nil
}

// eachPrediction calls f for the words of each line of a file that is not empty. There must be n such lines.
func eachPrediction(name string, n int, f func(words []string) error) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
	if len(lines) != n {
		return fmt.Errorf("%d predictions for %d events", len(lines), n)
	}
	for i, line := range lines {
		if err := f(strings.Fields(line)); err != nil {
			return fmt.Errorf("line %d of the predictions: %w", i+1, err)
		}
	}
	return nil
}

// writeText writes a set in the text format of VW or of LIBLINEAR, once for each of changes. Each change returns the
// features to write for example i, given a copy x of its features. The set is written once, as it is, if there are no changes.
func writeText(name string, s *set, vw bool, changes ...func(i int, x event.Vec) event.Vec) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	if len(changes) == 0 {
		changes = append(changes, func(_ int, x event.Vec) event.Vec { return x })
	}
	var line []byte
	for _, change := range changes {
		for i := range s.examples {
			label := s.examples[i].Label
			if vw && s.schema.Outputs() == 1 {
				label = 2*label - 1
			} else if vw {
				label++
			}
			line = strconv.AppendInt(line[:0], int64(label), 10)
			if vw {
				line = append(line, " |"...)
			}
			x := change(i, s.examples[i].Features.Clone())
			for j, d := range x.Index {
				if x.Value[j] != 0 {
					line = strconv.AppendUint(append(line, ' '), uint64(d)+1, 10)
					line = strconv.AppendFloat(append(line, ':'), x.Value[j], 'g', 6, 64)
				}
			}
			if _, err := w.Write(append(line, '\n')); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

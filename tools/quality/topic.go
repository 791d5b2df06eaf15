package main

// This file compares programs that learn from a Kafka topic: blankout run, Vowpal Wabbit with kcat, and River.

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// topicEvents is the number of JSON events in the topic.
const topicEvents = 400_000

// topicContest fills a topic of the broker with JSON events and makes each program learn these events. It appends a row
// to rows, as speed does, and returns the result of River.
func (c *comparison) topicContest(rows *strings.Builder) (river string, err error) {
	if c.brokers == "" || c.python == "" {
		return "", errors.New("name a Kafka broker with -brokers, and with -python a Python that has River and confluent-kafka; kcat must be installed")
	}
	const title = "JSON from a Kafka topic"
	events, topic := filepath.Join(c.work, "topic.json"), fmt.Sprint("speed-", os.Getpid())
	if err := writeEvents(events, topicEvents); err != nil {
		return "", err
	}
	if _, err := command(c.binary, "produce", "-q", "--create", "--brokers", c.brokers, "--topic", topic, "-d", events); err != nil {
		return "", err
	}
	run := []string{c.binary, "run", "-q", "--json", "--brokers", c.brokers, "--topic", topic, "--label", "_label", "--until-end", "--reset",
		"--set", "checkpoint.directory=" + filepath.Join(c.work, "checkpoints")}
	vw := func(loss string, more string) []string {
		return []string{"sh", "-c", fmt.Sprintf("kcat -C -b %s -t %s -p 0 -o beginning -e -q -X fetch.wait.max.ms=10 | %s --json --quiet -f %s --loss_function %s %s",
			c.brokers, topic, c.vw, filepath.Join(c.work, "theirs"), loss, more)}
	}
	all := []*contestant{
		{args: slices.Concat(run, []string{"--set", "learner.optimizer=adagrad", "--noise", "dropout:0.5"})},
		{args: run},
		{args: vw("logistic", "")},
		{args: vw("squared", "")},
		{args: []string{c.python, filepath.Join(c.scripts, "river_topic.py"), c.brokers, topic, strconv.Itoa(topicEvents)}},
	}
	if err := runOnce(all); err != nil {
		return "", err
	}
	for range rounds - 1 { // one run of the last program takes longer than all other runs together
		if err := runOnce(all[:4]); err != nil {
			return "", err
		}
	}
	s, err := loadJSON(events)
	if err != nil {
		return "", err
	}
	predictions := filepath.Join(c.work, "predictions")
	all[2].args, all[3].args = vw("logistic", "-p "+predictions), vw("squared", "-p "+predictions)
	for i, x := range all {
		out, err := command(x.args[0], x.args[1:]...)
		if err != nil {
			return "", err
		}
		var r struct {
			Wrong float64  `json:"error"` // error of River in percent
			Ours  *float64 `json:"progressive_error"`
		}
		switch {
		case i == 2 || i == 3:
			p, err := predicted(predictions, s, true)
			if err != nil {
				return "", err
			}
			r.Wrong = 100 * p.wrong
		case json.Unmarshal(out, &r) != nil:
			return "", fmt.Errorf("%v wrote %q", x.args, out)
		case r.Ours != nil:
			r.Wrong = *r.Ours
		}
		x.wrong = r.Wrong / 100
	}
	rows.WriteString(ratios(title, all))
	return all[4].String(), nil
}

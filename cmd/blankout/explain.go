package main

// This file has the flags and the output of predict --explain.

import (
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/spf13/cobra"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/stream/record"
)

// explainFlags are the flags of predict for explanations.
type explainFlags struct {
	form string // "text" or "json"; "" for no explanations
	top  int
}

func (o *explainFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.form, "explain", "", "explain each prediction, as text or json")
	f.Lookup("explain").NoOptDefVal = "text"
	f.IntVar(&o.top, "top", 20, "list this many contributions, the largest first; 0 lists all")
	_ = c.RegisterFlagCompletionFunc("explain", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

func (o *explainFlags) check() error {
	switch {
	case o.form != "" && o.form != "text" && o.form != "json":
		return usageError{fmt.Errorf("--explain=%q: want text or json", o.form)}
	case o.top < 0:
		return usageError{fmt.Errorf("--top %d: want 0 or more", o.top)}
	}
	return nil
}

// most returns the largest number of contributions to list, 0 without --explain.
func (o *explainFlags) most() int {
	switch {
	case o.form == "":
		return 0
	case o.top == 0:
		return math.MaxInt
	}
	return o.top
}

// explanation is the JSON output of predict --explain: the prediction of the HTTP server for an event.
type explanation struct {
	Event string  `json:"event"` // position of the event: FILE:LINE or TOPIC/PARTITION: offset N
	Label *string `json:"label"` // null for an unlabeled event
	served.Prediction
}

// explanationOf returns the explanation of an event of the Schema s.
func explanationOf(e *event.Example, s *event.Schema, place string, p served.Prediction) explanation {
	x := explanation{Event: place, Prediction: p}
	switch {
	case e.Label < 0:
	case s.Target != loss.Sign:
		x.Label = new(strconv.FormatFloat(e.Target, 'g', -1, 64))
	default:
		x.Label = &s.Classes[e.Label]
	}
	return x
}

// namer finds the names that the features of an event have in its record.
type namer struct {
	model   *served.Model
	data    *dataFlags // settings for reading the events
	reading record.Config
	names   *served.EventNames // names for records that are read with the settings in reading
}

// in returns the names for events of the current path.
func (n *namer) in() (_ *served.EventNames, err error) {
	if n.names == nil || !reflect.DeepEqual(n.reading, n.data.reading) {
		n.reading = n.data.reading
		n.names, err = n.model.NewEventNames(n.reading)
	}
	return n.names, err
}

package online_test

import (
	"bytes"
	"testing"

	"blankout/online"
	"blankout/online/aged"
	"blankout/online/synthetic"
)

// Later passes, in which events come that have been learned, are not measured, and hold no models.
func TestAgedFirstPassAlone(t *testing.T) {
	schema, _ := synthetic.NumberFields(4)
	l, err := online.New(online.DefaultConfig(), schema)
	if err != nil {
		t.Fatal(err)
	}
	events := synthetic.AgedEvents(1500, 2)
	sampled := func() (n float64) {
		for _, r := range l.Report().ByAge {
			n += r.Events
		}
		return n
	}
	for _, e := range events {
		l.Learn(e, nil)
	}
	was := sampled()
	l.EndPass()
	for _, e := range events {
		l.Learn(e, nil)
	}
	if sampled() != was || was == 0 {
		t.Errorf("answered %v events, %v in the first pass", sampled(), was)
	}
	blocks, err := l.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		if b.Name != aged.Block && bytes.HasPrefix([]byte(b.Name), []byte(aged.Block)) {
			t.Errorf("there is a block %s", b.Name)
		}
	}
}

package event

import (
	"fmt"
	"slices"
	"testing"
)

func TestOffsets(t *testing.T) {
	var o Offsets
	o.At("b", 1, 5)
	o.At("a", 2, 7)
	o.At("b", 0, 9)
	order := ""
	for _, p := range o {
		order += fmt.Sprint(p.Topic, p.Partition, " ")
	}
	if order != "a2 b0 b1 " {
		t.Errorf("order %s", order)
	}
	p := o.At("b", 1, 99)
	if p.Next != 5 {
		t.Errorf("a known partition starts again at %d", p.Next)
	}
	if err := p.Advance(5, 100); err != nil {
		t.Fatal(err)
	}
	if err := p.Advance(8, 1); err != nil { // a gap is not an error
		t.Fatal(err)
	}
	if got, _ := o.Lookup("b", 1); got != (Position{"b", 1, 9, 2, 101, 5, ""}) {
		t.Errorf("%+v", got)
	}
	before := *p
	if err := p.Advance(8, 1); err == nil || *p != before {
		t.Errorf("going back: %v, %+v", err, *p)
	}
	if _, ok := o.Lookup("c", 0); ok {
		t.Error("a partition never seen")
	}
}

func TestVecCheck(t *testing.T) {
	zero := 0.0
	for name, x := range map[string]Vec{
		"descending": {[]uint32{2, 1}, []float64{1, 1}},
		"twice":      {[]uint32{2, 2}, []float64{1, 1}},
		"lengths":    {[]uint32{2}, nil},
		"infinite":   {[]uint32{2}, []float64{1 / zero}},
		"nan":        {[]uint32{2}, []float64{zero / zero}},
	} {
		if x.Check() == nil {
			t.Errorf("%s: passed", name)
		}
	}
	x := Vec{[]uint32{1, 4}, []float64{1, -2}}
	if err := x.Check(); err != nil {
		t.Error(err)
	}
	y := x.Clone()
	y.Value[0] = 9
	if x.Value[0] != 1 {
		t.Error("Clone shares memory")
	}
}

func TestSchemaClass(t *testing.T) {
	for _, c := range []struct {
		name, classes string
		fixed         []string
		max           int
		labels        []string
		want          []int // -1 for a refused label
	}{
		{name: "order of appearance", max: 3, labels: []string{"x", "y", "x", "z", "w"}, want: []int{0, 1, 0, 2, -1}},
		{name: "minus one first", max: 2, labels: []string{"-1", "+1", "1.0", "0"}, want: []int{0, 1, 1, -1}},
		{name: "zero and one", max: 3, labels: []string{"0.0", "1", "0", "-0", "+1.00", "1.", "01", "1e0"}, want: []int{0, 1, 0, 0, 1, 1, 2, -1}},
		{name: "own text", max: 9, labels: []string{"00123", "123", "123.0", "1e2", "100", "inf", "Infinity", "9007199254740992", "9007199254740993", "123"}, want: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 1}},
		{name: "spelled one first", max: 2, labels: []string{"+1.0", "0", "1"}, want: []int{1, 0, 1}},
		{name: "one first", max: 2, labels: []string{"1", "-1", "1"}, want: []int{1, 0, 1}},
		{name: "one first, then zero", max: 2, labels: []string{"1", "0", "-1"}, want: []int{1, 0, -1}},
		{name: "true first", max: 2, labels: []string{"true", "false"}, want: []int{1, 0}},
		{name: "fixed", fixed: []string{"ham", "spam"}, labels: []string{"spam", "ham", "eggs", ""}, want: []int{1, 0, -1, -1}},
	} {
		s := NewSchema(10, c.fixed, c.max)
		var got []int
		for _, l := range c.labels {
			k, ok := s.Class([]byte(l))
			if !ok {
				k = -1
			}
			got = append(got, k)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v (classes %q)", c.name, got, c.want, s.Classes)
		}
	}
}

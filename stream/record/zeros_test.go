package record

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/stream/record/recordtest"
)

// TestAbsentZero checks that under AbsentZero an event that omits zeros equals the event with the zeros, once the
// fields exist. The test covers every format that can omit a number. null and a value of another kind must not count as
// zero.
func TestAbsentZero(t *testing.T) {
	for _, change := range []func(*Config){nil, func(c *Config) { c.Crosses = [][2]string{{"f0", "g"}} }} {
		c := DefaultConfig()
		if c.Absent = event.AbsentZero; change != nil {
			change(&c)
		}
		whole, sparse := c.Schema(), c.Schema()
		dw := must.Get(NewDecoder(c, whole))(t)
		ds := must.Get(NewDecoder(c, sparse))(t)
		random := rand.New(rand.NewPCG(1, 2))
		var ew, es event.Example
		for n := range 500 {
			var all, some []string
			for i := range 8 {
				name := fmt.Sprintf("f%d", i)
				if i > 5 {
					name = fmt.Sprintf("o.f%d", i)
				}
				x := random.IntN(3)
				if all = append(all, fmt.Sprintf("%q:%d", name, x)); x > 0 || n == 0 {
					some = append(some, all[len(all)-1])
				}
			}
			rest := []string{`"g":"a"`, `"g":null`, `"g":true`}[random.IntN(3)]
			if n == 0 {
				rest = `"g":"a"`
			}
			all, some = append(all, rest), append(some, rest)
			random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			if n == 0 {
				some = slices.Clone(all)
			}
			for _, d := range []struct {
				Decoder
				e    *event.Example
				text []string
			}{{dw, &ew, all}, {ds, &es, some}} {
				err := d.Decode(t.Context(), Record{Value: []byte("{" + strings.Join(d.text, ",") + "}")}, d.e)
				must.Require(t, err == nil && d.e.Refused == nil, "%v %v", err, d.e.Refused)
			}
			got, want := recordtest.Show(sparse, &es), recordtest.Show(whole, &ew)
			must.Require(t, got == want, "event %d, %s:\n got %s\nwant %s", n, some, got, want)
			if n%100 == 99 { // continue as after a restart
				sparse = sparse.Clone()
				ds = must.Get(NewDecoder(c, sparse))(t)
			}
		}
	}
	c := DefaultConfig()
	c.Absent = event.AbsentZero
	s, d := newDecoder(t, c)
	for _, line := range []struct{ in, want string }{
		{`{"a":1,"b":"x","o":{"c":2}}`, "? a:1:n b=x:1:c o.c:2:n"},
		{`{}`, "? a:0:n o.c:0:n"},
		{`{"a":null,"o":null}`, "? -a -o.c"},
		{`{"a":"none"}`, "? a=none:1:c o.c:0:n"},
		{`{"a":1,"a":2,"new":3}`, "duplicate-field"},
		{`{"a":5}`, "? a:5:n o.c:0:n"},
		{`{"later":5}`, "? later:5:n a:0:n o.c:0:n"},
		{`{}`, "? a:0:n later:0:n o.c:0:n"},
	} {
		got := showOr(s, decoded(d, line.in))
		must.True(t, sameWords(got, line.want), "%s: %s, want %s", line.in, got, line.want)
	}
	// A field whose first kind is not numeric, and a field of a refused record.
	c.Classes = []string{"no", "yes"}
	s, d = newDecoder(t, c)
	for _, line := range []struct{ in, want string }{
		{`{"k":"x","a":1}`, "? k=x:1:c a:1:n"}, {`{"k":2,"a":1}`, "? k:2:n a:1:n"}, {`{"k":"x","a":1}`, "? k=x:1:c a:1:n"}, {`{"a":1}`, "? k:0:n a:1:n"},
		{`{"label":"perhaps","a":1,"new":3}`, "label"}, {`{"a":1,"other":"x"}`, "? k:0:n a:1:n other=x:1:c"}, {`{"label":"no"}`, "no k:0:n a:0:n"},
	} {
		got := showOr(s, decoded(d, line.in))
		must.True(t, sameWords(got, line.want), "%s: %s, want %s", line.in, got, line.want)
	}
	c.TimeFeatures, c.Time = []string{"born"}, "at"
	s, d = newDecoder(t, c)
	var e event.Example
	for _, value := range []string{`{"at":1000,"born":0,"x":1}`, `{"at":1000}`} {
		d.Decode(t.Context(), Record{Value: []byte(value)}, &e)
	}
	got := recordtest.Show(s, &e)
	must.True(t, sameWords(got, "? time=1000 x:0:n"), "an age that is left out: %s", got)
}

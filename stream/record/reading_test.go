package record

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/stream/record/recordtest"
)

// readings has values of a field, as JSON, by the way in which they should be read.
var readingExamples = map[string]struct {
	as    event.ReadAs
	value func(i int) string
}{
	"sentences":         {event.ReadText, func(i int) string { return fmt.Sprintf(`"The printer %d is jammed again"`, i) }},
	"German":            {event.ReadText, func(i int) string { return fmt.Sprintf(`"Bitte schön, Nummer %d öffnen"`, i) }},
	"Russian":           {event.ReadText, func(i int) string { return fmt.Sprintf(`"принтер %d снова не работает"`, i) }},
	"Chinese":           {event.ReadText, func(i int) string { return fmt.Sprintf(`"打印机坏了，请帮忙 %d"`, i) }},
	"three words":       {event.ReadText, func(i int) string { return fmt.Sprintf(`"a%d b%d c%d"`, i%7, i%11, i%13) }},
	"words with commas": {event.ReadText, func(i int) string { return fmt.Sprintf(`"red,w%d,green;blue"`, i) }},
	"words with bars":   {event.ReadText, func(i int) string { return fmt.Sprintf(`"Action|w%d|Comedy"`, i) }},
	"some short": {event.ReadText, func(i int) string {
		return []string{`"Hi"`, fmt.Sprintf(`"please call me back at %d"`, i)}[min(i%3, 1)]
	}},
	"list of sentences": {event.ReadText, func(i int) string { return fmt.Sprintf(`["my screen %d is blue","help me with %d please"]`, i, i) }},
	"list of words":     {event.ReadPlain, func(i int) string { return fmt.Sprintf(`["w%d","help"]`, i) }},
	"routes": {event.ReadPlain, func(i int) string {
		return fmt.Sprintf(`"airport of city %d to the city %d"`, i*7%4, i*11%5)
	}},
	"compact dates":           {event.ReadTime, func(i int) string { return fmt.Sprint(202401010000 + 10000*(i/24) + 100*(i%24)) }},
	"amounts that grow first": {event.ReadPlain, func(i int) string { return fmt.Sprint(200_000_000 + 70_000_000*i) }},
	"amounts named as times":  {event.ReadPlain, func(i int) string { return fmt.Sprint(200_000_000 + i*i*7919*100_003%3_900_000_000) }},
	"category of words":       {event.ReadPlain, func(i int) string { return []string{`"never worked at all"`, `"works for the state"`}[i%2] }},
	"short category":          {event.ReadPlain, func(i int) string { return fmt.Sprintf(`"city %d"`, i) }},
	"ids":                     {event.ReadPlain, func(i int) string { return fmt.Sprintf(`"550e8400-e29b-41d4-a716-%012d"`, i) }},
	"addresses":               {event.ReadPlain, func(i int) string { return fmt.Sprintf(`"192.168.%d.1"`, i) }},
	"coordinates":             {event.ReadPlain, func(i int) string { return fmt.Sprintf(`"48.1, 11.%d, 500"`, i) }},
	"ISO dates":               {event.ReadTime, func(i int) string { return fmt.Sprintf(`"2026-01-%02dT06:20:00Z"`, i%28+1) }},
	"US dates with nulls":     {event.ReadTime, func(i int) string { return []string{"null", fmt.Sprintf(`"%d/1/2026 6:20"`, i%12+1)}[i%2] }},
	"dates, a few wrong":      {event.ReadTime, func(i int) string { return []string{`"unknown"`, `"31.1.2026"`}[min((i+19)%20, 1)] }},
	"seconds":                 {event.ReadTime, func(i int) string { return fmt.Sprint(893286638 + 913*i) }},
	"seconds out of order":    {event.ReadTime, func(i int) string { return fmt.Sprint(1700000000 + 60*(i-i%20/19*3)) }},
	"fractional seconds":      {event.ReadTime, func(i int) string { return fmt.Sprintf("%d.25", 1700000000+i/3) }},
	"milliseconds":            {event.ReadTime, func(i int) string { return fmt.Sprint(1700000000000 + 913*i) }},
	"microseconds":            {event.ReadTime, func(i int) string { return fmt.Sprint(1700000000000000 + 913*i) }},
	"nanoseconds":             {event.ReadTime, func(i int) string { return fmt.Sprint(1700000000000000000 + 1e9*int64(i)) }},
	"dates as numbers":        {event.ReadTime, func(i int) string { return fmt.Sprint(20260101 + i%28 + 100*(i/28)) }},
	"amounts":                 {event.ReadPlain, func(i int) string { return fmt.Sprint(150000000 + i*7919%97*1000000) }},
	"memory":                  {event.ReadPlain, func(i int) string { return fmt.Sprint(2000000000 + i*7919%97*1000000) }},
	"small counter":           {event.ReadPlain, func(i int) string { return fmt.Sprint(i) }},
	"outliers":                {event.ReadPlain, func(i int) string { return fmt.Sprint(1 + i%20/19*1700000000) }},
	"seconds as strings":      {event.ReadTime, func(i int) string { return fmt.Sprintf(`"%d"`, 1700000000+60*i) }},
	"digits alone":            {event.ReadTime, func(i int) string { return fmt.Sprintf(`"202601%02d%02d3000"`, 1+i/24, i%24) }},
	"paths of categories":     {event.ReadText, func(i int) string { return fmt.Sprintf(`"Home>Garden>Tool%d"`, i%40) }},
	"numbers and strings":     {event.ReadPlain, func(i int) string { return []string{`"one of them"`, "7", "0"}[i%3] }},
	"large counter":           {event.ReadPlain, func(i int) string { return fmt.Sprint(29000000 + i) }},
}

// TestReadings checks how the values of fields are read: the same in JSON and CSV, and after a restart at any event. A
// refused record has no effect, and a model that no longer learns keeps its way of reading.
func TestReadings(t *testing.T) {
	for name, test := range readingExamples {
		for _, format := range []string{"json", "csv"} {
			c := DefaultConfig()
			c.Format, c.Unlabeled, c.Columns = format, true, []string{"f", "y"}
			record := func(i int) string {
				value := test.value(i)
				if format == "csv" {
					value = strings.Replace(value, "null", "", 1)
					return value + ",y"
				}
				return `{"f":` + value + `,"y":"y"}`
			}
			if format == "csv" && strings.HasPrefix(test.value(0), "[") {
				continue
			}
			s, d := newDecoder(t, c)
			again, other := newDecoder(t, c)
			for i := range 130 {
				if i%17 == 0 { // a restart, whose Schema comes from the checkpoint
					text := must.Get(json.Marshal(again.View()))(t)
					names := again.Names
					again = &event.Schema{}
					must.Do(t, json.Unmarshal(text, again))
					again.Names = names
					other = must.Get(NewDecoder(c, again))(t)
				}
				before := must.Get(json.Marshal(s))(t)
				view := s.View()
				refused := decoded(d, strings.Replace(record(i+5), "y", "\xff", 1)[1:])
				must.Require(t, refused.Refused != nil, "%s: a wrong record is not refused", name)
				must.Equal(t, string(must.Get(json.Marshal(s))(t)), string(before), name, "after a refused record", i)
				got, want := decoded(other, record(i)), decoded(d, record(i))
				must.Equal(t, recordtest.Show(again, &got), recordtest.Show(s, &want), name, i)
				must.Equal(t, string(must.Get(json.Marshal(view))(t)), string(before), name, "the View before event", i)
			}
			as := event.ReadPlain
			for _, kind := range []event.ReadAs{event.ReadText, event.ReadTime} {
				if slices.Contains(s.ReadAs(kind), "f") {
					as = kind
				}
			}
			must.Equal(t, as, test.as, name, format, s.Readings)
			e := decoded(d, record(202))
			kinds := map[event.Kind]bool{}
			for _, id := range e.Field {
				if f := s.Fields[id]; f.Name != "y" {
					kinds[f.Kind] = true
					must.Equal(t, strings.HasPrefix(f.Name, "f."), as == event.ReadTime, name, format, f.Name)
				}
			}
			must.Equal(t, kinds[event.Words], as == event.ReadText || name == "list of words", name, format, kinds)
			closed := s.Clone()
			closed.Closed = len(closed.Fields)
			frozen := must.Get(NewDecoder(c, closed))(t)
			for _, record := range []string{record(202), strings.Replace(record(203), "f", "g", 1)} {
				decoded(frozen, record)
			}
			must.Equal(t, fmt.Sprint(closed.Readings), fmt.Sprint(s.Readings), name, "of a model that no longer learns")
		}
	}
	c := DefaultConfig()
	c.Format, c.Infer, c.Label = "json", false, ""
	got := shown(t, c, `{"a":"one two three four","b":"2026-01-31","c":1700000000}`)
	must.True(t, sameWords(got, "? a=one two three four:1:c b=2026-01-31:1:c c:1.7e+09:n"), "record.infer = false: %s", got)
}

// TestDayOrder checks that the first date that shows the order of day and month decides it for the field.
func TestDayOrder(t *testing.T) {
	for _, features := range [][]string{nil, {"at"}} {
		c := DefaultConfig()
		c.Format, c.Label, c.TimeFeatures = "json", "", features
		s, d := newDecoder(t, c)
		var got []string
		for _, at := range []string{"2/1/2026", "31/1/2026", "2/1/2026", "1/31/2026", "3/1/2026"} {
			e := decoded(d, `{"at":"`+at+` 12:00"}`)
			got = append(got, recordtest.Show(s, &e))
		}
		text := strings.Join(got, "\n")
		for i, day := range []string{"Sunday", "Saturday", "Friday", "Saturday", "Saturday"} {
			must.True(t, strings.Contains(got[i], "at.weekday="+day) && strings.Contains(got[i], "at.hour=12"), "event %d: want %s:\n%s", i, day, text)
		}
	}
}

package record

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"blankout/internal/event"
	"blankout/internal/must"

	"github.com/cespare/xxhash/v2"
)

// reference is a slow and simple reference decoder that uses the standard library's parsers. Fuzz tests compare the
// decoders with this reference.
type reference struct {
	c        Config
	columns  uint64
	sum      map[uint32]float64
	kind     map[uint32]event.Kind
	null     []string
	label    *string
	weight   float64
	key      string
	refused  string
	features int
}

func newReference(c Config) *reference {
	return &reference{c: c, columns: 1 << c.Bits, sum: map[uint32]float64{}, kind: map[uint32]event.Kind{}, weight: 1}
}

func (r *reference) refuse(format string, args ...any) {
	if r.refused == "" {
		r.refused = fmt.Sprintf(format, args...)
	}
}

func (r *reference) add(field string, value *string, kind event.Kind, x float64) {
	if len(field) > maxNameBytes {
		kind = event.Sparse // no separate field
	}
	hash := event.Mix(xxhash.Sum64String(field) + r.c.Seed)
	if value != nil {
		hash = event.Mix(hash + xxhash.Sum64String(*value))
	}
	r.column(hash%r.columns, kind, x)
}

func (r *reference) column(column uint64, kind event.Kind, x float64) {
	if r.features++; !(math.Abs(x) <= 1e30) || column >= r.columns {
		r.refuse("column %d: %g", column, x)
	}
	d := uint32(column)
	if _, ok := r.sum[d]; !ok {
		r.kind[d] = kind
	}
	if r.sum[d] += x; !(math.Abs(r.sum[d]) <= 1e30) {
		r.refuse("column %d: sum %g", column, r.sum[d])
	}
}

func (r *reference) number(text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	return must.Either(strings.Trim(text, "0123456789+-.eE") != "" || err != nil && !math.IsInf(x, 0), math.NaN(), x)
}

// plain formats a numeric label: an integer without a fraction, other numbers without an exponent. Numbers with many
// digits keep their exponent.
func plain(text string) string {
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if x, err := strconv.Atoi(exponent); exponent != "" && (err != nil || x > 1000 || x < -1000) || len(text) > 20 {
		return string(event.PlainNumber([]byte(text)))
	}
	x, ok := new(big.Rat).SetString(text)
	if !ok {
		return text
	}
	if x.IsInt() && len(x.Num().String()) <= 40 {
		return x.Num().String()
	}
	if written := strings.TrimRight(x.FloatString(1100), "0"); len(written) <= 42 {
		return written
	}
	return string(event.PlainNumber([]byte(text)))
}

func (r *reference) special(name, text string) bool {
	switch name {
	case r.c.Label:
		r.label = &text
	case r.c.Weight:
		if r.weight = r.number(text); !(r.weight >= 0 && r.weight <= 1e6) {
			r.refuse("weight %q", text)
		}
	case r.c.ID:
		r.key = text
	default:
		return false
	}
	return true
}

// text adds the words of a text, and the sequences of two words.
func (r *reference) text(name, text string) {
	spaced, alone := "", false // with blanks around letters of scripts that write none
	for _, c := range strings.ToLower(text) {
		if !unicode.IsMark(c) && (alone || unspaced(c)) {
			spaced += " "
		}
		spaced, alone = spaced+string(c), unspaced(c) || alone && unicode.IsMark(c)
	}
	words := strings.FieldsFunc(spaced, func(c rune) bool {
		return !unicode.In(c, unicode.L, unicode.Nd, unicode.M)
	})
	for i, w := range words {
		r.add(name, &w, event.Words, 1)
		if i > 0 {
			pair := words[i-1] + " " + w
			r.add(name, &pair, event.Words, 1)
		}
	}
	if r.features > r.c.MaxFeatures {
		r.refuse("%d features", r.features)
	}
}

// json reads an event from the tokens of encoding/json.
func (r *reference) json(data []byte) {
	if !json.Valid(data) || !utf8.Valid(data) {
		r.refuse("not valid")
		return
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if t, _ := d.Token(); t != json.Delim('{') {
		r.refuse("not an object")
		return
	}
	r.object(d, "", 1, false)
}

func (r *reference) object(d *json.Decoder, prefix string, depth int, drop bool) {
	seen := map[string]bool{}
	for d.More() {
		t, _ := d.Token()
		key := t.(string)
		if seen[key] && !drop {
			r.refuse("twice %q", key)
		}
		seen[key] = true
		name := prefix + key
		if len(name) > maxFieldBytes && !drop {
			r.refuse("a name of %d bytes", len(name))
		}
		r.value(d, name, nil, depth, drop || slices.Contains(r.c.Drop, name))
	}
	d.Token()
}

// value reads the value of the field name, which may be an element of array.
func (r *reference) value(d *json.Decoder, name string, array *string, depth int, drop bool) {
	special := name == r.c.Label || name == r.c.Weight || name == r.c.ID
	t, _ := d.Token()
	if _, word := t.(string); array != nil && !word && len(name) > maxFieldBytes && !drop {
		r.refuse("a name of %d bytes", len(name))
	}
	if delim, ok := t.(json.Delim); ok {
		if depth == maxDepth {
			r.refuse("too deep")
		}
		if special && !drop {
			r.refuse("several values of %q", name)
		}
		if delim == '{' {
			r.object(d, name+".", depth+1, drop)
			return
		}
		for i := 0; d.More(); i++ {
			r.value(d, fmt.Sprintf("%s[%d]", name, i), &name, depth+1, drop)
		}
		d.Token()
		return
	}
	text, isText := t.(string)
	switch {
	case drop:
		return
	case isText && array != nil && slices.Contains(r.c.Text, *array):
		r.text(*array, text)
		return
	case isText && array != nil: // a word of the array, not an element with a field of its own
		r.add(*array, &text, event.Words, 1)
		return
	case t == nil:
		if !special {
			r.null = append(r.null, name)
		}
		return
	case special:
		text := fmt.Sprint(t)
		if n, ok := t.(json.Number); ok && name == r.c.Label {
			text = plain(n.String())
		}
		r.special(name, text)
		return
	}
	switch t := t.(type) {
	case bool:
		text := strconv.FormatBool(t)
		r.add(name, &text, event.Boolean, 1)
	case json.Number:
		r.add(name, nil, event.Numeric, r.number(t.String()))
	case string:
		if slices.Contains(r.c.Text, name) {
			r.text(name, t)
		} else {
			r.add(name, &t, event.Categorical, 1)
		}
	}
}

func fields(line string) []string {
	return strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' })
}

func (r *reference) svmlight(data []byte) {
	line, _, _ := strings.Cut(string(data), "#")
	words := fields(line)
	if len(words) == 0 || strings.ContainsAny(words[0], ":,") || notFinite([]byte(words[0])) {
		r.refuse("label")
		return
	}
	r.label = &words[0]
	for _, w := range words[1:] {
		index, value, _ := strings.Cut(w, ":")
		if index == "qid" && strings.Contains(w, ":") {
			continue
		}
		i, err := strconv.ParseUint(index, 10, 62)
		if err != nil || len(index) > 19 {
			r.refuse("index %q", index)
		}
		r.column(i-1, event.Sparse, r.number(value))
	}
}

func (r *reference) vw(data []byte) {
	parts := strings.Split(string(data), "|")
	words, touches := fields(parts[0]), false
	if n := len(parts[0]); len(parts) > 1 && n > 0 && !blank(parts[0][n-1]) {
		touches = true
	}
	for i, w := range words {
		switch {
		case w[0] == '\'':
			r.key = w[1:]
		case touches && i == len(words)-1:
			r.key = w
		case i == 0:
			if strings.ContainsAny(w, ":,") || notFinite([]byte(w)) {
				r.refuse("label %q", w)
			}
			r.label = &w
		case i == 1:
			r.special(r.c.Weight, w)
		default:
			r.refuse("head %q", w)
		}
	}
	for _, part := range parts[1:] {
		namespace, scale := "", 1.0
		words := fields(part)
		if part != "" && !blank(part[0]) {
			value, scaled := "", false
			if namespace, value, scaled = strings.Cut(words[0], ":"); scaled {
				if scale = r.number(value); !(math.Abs(scale) <= 1e30) {
					r.refuse("scale %q", value)
				}
			}
			words = words[1:]
		}
		if len(namespace) > maxFieldBytes {
			r.refuse("a name of %d bytes", len(namespace))
		}
		for _, w := range words {
			name, value, valued := strings.Cut(w, ":")
			x := 1.0
			if valued {
				if x = r.number(value); !(math.Abs(x) <= 1e30) {
					r.refuse("value %q", w)
				}
			}
			if slices.Contains(r.c.Drop, namespace) {
				continue
			}
			if i, err := strconv.ParseUint(name, 10, 40); namespace == "" && err == nil && len(name) <= 10 && i > 0 && i <= r.columns {
				r.column(i-1, event.Sparse, x*scale)
				continue
			}
			r.add(namespace, &name, event.Sparse, x*scale)
		}
	}
}

func (r *reference) csv(data []byte) {
	d := csv.NewReader(bytes.NewReader(data))
	d.Comma, d.FieldsPerRecord = rune(r.c.Separator[0]), len(r.c.Columns)
	values, err := d.Read()
	if err != nil {
		r.refuse("%v", err)
		return
	}
	if !utf8.Valid(data) {
		r.refuse("not UTF-8")
		return
	}
	if _, err := d.Read(); err != io.EOF {
		r.refuse("a second line")
	}
	// encoding/csv does not report quotes, so use the decoder's handling of blanks.
	for i, v := range values {
		name := r.c.Columns[i]
		switch {
		case slices.Contains(r.c.Missing, v):
			if !slices.Contains([]string{r.c.Label, r.c.Weight, r.c.ID}, name) {
				r.null = append(r.null, name)
			}
		case r.special(name, v):
		case slices.Contains(r.c.Text, name):
			r.text(name, v)
		case v == "true" || v == "false":
			r.add(name, &v, event.Boolean, 1)
		case slices.Contains(r.c.Categorical, name):
			r.add(name, &v, event.Categorical, 1)
		case notFinite([]byte(v)):
			r.refuse("%q", v)
		default:
			if x := r.number(v); !math.IsNaN(x) {
				r.add(name, nil, event.Numeric, x)
			} else {
				r.add(name, &v, event.Categorical, 1)
			}
		}
	}
}

// fuzz compares the decoder of a format with the reference. It decodes each record twice: when it is new, and when all
// its names are known.
func fuzz(f *testing.F, format string, read func(*reference, []byte), skip func([]byte) bool) {
	c := DefaultConfig()
	c.NaN = nanRefuse // encoding/json refuses NaN too
	c.Infer = false   // the reference reads every value as it is
	c.Format, c.Weight, c.ID, c.Drop, c.Bits = format, "w", "id", []string{"d", "a.d"}, 20
	switch format {
	case "json":
		c.Text, c.Ngrams = []string{"t", "a.t"}, 2
		f.Add([]byte(`{"t":"The cat, the CAT \u00c9t\u00e9 9.5","a":{"t":["Two words","and two"]},"x":1}`))
	case "csv":
		c.Text, c.Ngrams = []string{"y"}, 2
		f.Add([]byte(`1,2,"The cat, the ""CAT"" Été 9.5",,k,z`))
		c.Columns, c.Categorical = []string{"label", "x", "y", "w", "id", "z"}, []string{"z"}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if skip != nil && skip(data) {
			return
		}
		r := newReference(c)
		if len(data) == 0 || data[0] == 0 && len(data) >= 5 {
			r.refuse("empty or of a schema registry")
		} else {
			read(r, data)
		}
		c := c
		for _, maxFields := range []int{c.MaxFields, 1, 3} {
			c.MaxFields = maxFields
			s, d := newDecoder(t, c)
			var e event.Example
			var key []byte
			if r.key != "" {
				key = []byte(r.key)
			}
			for round := range 3 {
				d.Decode(context.Background(), Record{Value: data}, &e)
				// Only a field that an earlier record had can be missing.
				must.Do(t, r.compare(s, &e, key, maxFields, round > 0 && maxFields > 10), "max_fields", maxFields)
			}
		}
	})
}

func (r *reference) compare(s *event.Schema, e *event.Example, key []byte, maxFields int, checkMissing bool) error {
	if err := e.Features.Check(); err != nil {
		return err
	}
	if r.label != nil && r.refused == "" {
		want := *r.label
		if strings.TrimSpace(want) == "" || len(*r.label) > maxNameBytes {
			r.refused = "an empty label, or a long one"
		} else if e.Refused == nil && (e.Label < 0 || s.Classes[e.Label] != want) {
			return fmt.Errorf("class %d of %q, want %q", e.Label, s.Classes, want)
		}
	} else if e.Label != event.Unlabeled {
		return fmt.Errorf("class %d, want none", e.Label)
	}
	if (e.Refused != nil) != (r.refused != "") {
		return fmt.Errorf("refused: %v, want %q", e.Refused, r.refused)
	}
	if e.Refused != nil {
		if e.Features.Len()+len(e.Field)+len(e.Missing) > 0 {
			return fmt.Errorf("a refused record with features")
		}
		return nil
	}
	if e.Weight != r.weight || string(e.Key) != string(key) {
		return fmt.Errorf("weight %v, key %q; want %v, %q", e.Weight, e.Key, r.weight, key)
	}
	if e.Features.Len() != len(r.sum) {
		return fmt.Errorf("%d columns, want %d", e.Features.Len(), len(r.sum))
	}
	for i, d := range e.Features.Index {
		want, ok := r.sum[d]
		if !ok || want != e.Features.Value[i] {
			return fmt.Errorf("column %d is %v, want %v (%v)", d, e.Features.Value[i], want, ok)
		}
		kind := event.Sparse
		if e.Field != nil {
			kind = s.Fields[e.Field[i]].Kind
		}
		if kind != r.kind[d] && (kind != event.Sparse || maxFields > 10) {
			return fmt.Errorf("column %d is %v, want %v", d, kind, r.kind[d])
		}
	}
	if !checkMissing {
		return nil
	}
	var missing []uint16
	for _, name := range r.null {
		known := map[string]bool{}
		for id, f := range s.Fields {
			if id > 0 && !known[f.Name] && (f.Name == name || strings.HasPrefix(f.Name, name+".") || strings.HasPrefix(f.Name, name+"[")) {
				missing = append(missing, uint16(id))
				known[f.Name] = true
			}
		}
	}
	slices.Sort(missing)
	if missing = slices.Compact(missing); !slices.Equal(missing, e.Missing) {
		return fmt.Errorf("missing %v, want %v", e.Missing, missing)
	}
	return nil
}

func FuzzJSON(f *testing.F)     { fuzz(f, "json", (*reference).json, nil) }
func FuzzSvmlight(f *testing.F) { fuzz(f, "svmlight", (*reference).svmlight, nil) }
func FuzzVW(f *testing.F)       { fuzz(f, "vw", (*reference).vw, nil) }
func FuzzCSV(f *testing.F) {
	// Intended differences: encoding/csv turns \r\n into \n within quotes, keeps blanks, and skips empty lines.
	fuzz(f, "csv", (*reference).csv, func(data []byte) bool {
		return bytes.ContainsAny(data, "\r \t") || bytes.HasPrefix(data, []byte("\n")) || bytes.HasSuffix(data, []byte("\n"))
	})
}

// TestSvmlightShortLines compares lines of svmlight of every length with the reference, including lines that end within
// a block of the fast path.
func TestSvmlightShortLines(t *testing.T) {
	c := DefaultConfig()
	c.Format, c.NaN, c.Bits = "svmlight", nanRefuse, 20
	r := rand.New(rand.NewPCG(11, 12))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	usual := 0
	for i := range 30_000 {
		line, column := pick("1", "-1", "2"), 0
		for range r.IntN(8) {
			if column += 1 + r.IntN(1+r.IntN(200)); r.IntN(30) == 0 {
				column = r.IntN(column)
			}
			line += pick(" ", " ", " ", " ", " ", "  ", "\t") + strconv.Itoa(column) + pick(":", ":", ":", ":", ":", "", "::") +
				pick("1", "1", "3", "12", "0.5", "0.0626997", "12.5", "-1", "-0", "-0.00475079", "-2182.91", "1234567.12345678", "12345678.1", "0.123456789", "--1", "-.5", "1e3", "123456789", "", "x", "1.")
		}
		line += pick("", "", "", "", " ", "\r", " # c", "#1 2:3")
		s, d := newDecoder(t, c)
		want, data := newReference(c), []byte(line + "7:7 8")[:len(line)] // bytes after data do not belong to the line
		want.svmlight(data)
		e := decoded(d, data)
		must.Do(t, want.compare(s, &e, nil, c.MaxFields, false), "line", i, line)
		if e.Refused == nil {
			usual++
		}
	}
	must.True(t, usual >= 5000, "only %d lines can be read", usual)
}

package stdio

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/stream/record"
)

// client sends requests to a Server as another program does.
type client struct {
	t      testing.TB
	in     io.WriteCloser
	out    io.Reader
	number uint32 // of the latest request
}

func start(t testing.TB) *client {
	in, write := io.Pipe()
	read, out := io.Pipe()
	ended := make(chan error)
	go func() {
		err := New("test").Serve(context.Background(), in, out)
		out.Close()
		ended <- err
	}()
	t.Cleanup(func() {
		write.Close()
		must.Do(t, <-ended)
	})
	return &client{t: t, in: write, out: read}
}

// ask returns the status, the width and the payload of the answer.
func (c *client) ask(op, flags byte, learner uint16, events int, parts ...any) (status, width uint32, payload []byte) {
	c.t.Helper()
	var body []byte
	for _, part := range parts {
		switch x := part.(type) {
		case []byte:
			body = append(body, x...)
		case string:
			body = append(body, x...)
		case uint64:
			body = binary.LittleEndian.AppendUint64(body, x)
		case []float64:
			for _, v := range x {
				body = binary.LittleEndian.AppendUint64(body, math.Float64bits(v))
			}
		case []int64:
			for _, v := range x {
				body = binary.LittleEndian.AppendUint64(body, uint64(v))
			}
		default:
			body = append(body, must.Get(json.Marshal(x))(c.t)...)
		}
	}
	head := []byte{op, flags}
	head = binary.LittleEndian.AppendUint16(head, learner)
	head = binary.LittleEndian.AppendUint32(head, uint32(events))
	c.number += 1 << 20 // wraps around
	head = binary.LittleEndian.AppendUint32(head, c.number)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(body)))
	if _, err := c.in.Write(append(head, body...)); err != nil {
		c.t.Fatal(err)
	}
	var answer [16]byte
	if _, err := io.ReadFull(c.out, answer[:]); err != nil {
		c.t.Fatal(err)
	}
	if got := binary.LittleEndian.Uint32(answer[8:]); got != c.number {
		c.t.Fatalf("the answer to request %d has the number %d", c.number, got)
	}
	payload = make([]byte, binary.LittleEndian.Uint32(answer[12:]))
	if _, err := io.ReadFull(c.out, payload); err != nil {
		c.t.Fatal(err)
	}
	return binary.LittleEndian.Uint32(answer[:]), binary.LittleEndian.Uint32(answer[4:]), payload
}

// must is ask for a request that must succeed.
func (c *client) must(op, flags byte, learner uint16, events int, parts ...any) []byte {
	c.t.Helper()
	status, _, payload := c.ask(op, flags, learner, events, parts...)
	if status != 0 {
		c.t.Fatalf("operation %c: %s", op, payload)
	}
	return payload
}

// stream has events as rows and as lines of JSON. Three of four events have a label.
type stream struct {
	names   []string
	rows    [][]float64
	classes []string
	labels  []float64
}

func newStream(n int) (s stream) {
	s.names, s.classes = []string{"a", "b", "c"}, []string{"no", "yes"}
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		row := []float64{r.NormFloat64(), 10 * r.NormFloat64(), 5 + r.NormFloat64()}
		label := must.Either(row[0]+row[1]/10 > 0, 1.0, 0)
		if j := r.IntN(8); j < 3 {
			row[j] = math.NaN()
		}
		if r.IntN(4) == 0 {
			label = math.NaN()
		}
		s.rows, s.labels = append(s.rows, row), append(s.labels, label)
	}
	return s
}

func (s stream) flat() (out []float64) { return slices.Concat(s.rows...) }

// lines returns the events as lines of JSON, which contain the labels if labels is set.
func (s stream) lines(labels bool) string {
	var b strings.Builder
	for i, row := range s.rows {
		var fields []string
		for j, x := range row {
			text := must.Either(x == x, fmt.Sprint(x), "null")
			fields = append(fields, fmt.Sprintf("%q:%s", s.names[j], text))
		}
		if labels && s.labels[i] == s.labels[i] {
			fields = append(fields, fmt.Sprintf(`"label":%q`, s.classes[int(s.labels[i])]))
		}
		fmt.Fprintf(&b, "{%s}\n", strings.Join(fields, ","))
	}
	return b.String()
}

// TestFormsAreOne checks that the same events give the same bits in every form: rows, lines with separate labels, and
// lines that contain their labels. The bits must not depend on the number of requests either, or on saving and loading
// the learner in between.
func TestFormsAreOne(t *testing.T) {
	s := newStream(600)
	c := start(t)
	const learn = flagLearn | flagAnswer
	for l := range uint16(5) {
		c.must(opNew, 0, l, 0, []string{"learner.loss=logistic"})
		c.must(opShape, 0, l, 0, s.names)
		c.must(opClasses, 0, l, 0, s.classes)
	}
	n := len(s.rows)
	want := c.must(opRows, learn|flagLabels, 0, n, s.labels, uint64(0), s.flat())
	must.True(t, bytes.Equal(c.must(opLines, learn|flagLabels, 1, n, s.labels, s.lines(false)), want), "lines with labels beside them are answered differently from rows")
	must.True(t, bytes.Equal(c.must(opLines, learn, 2, n, s.lines(true)), want), "lines with labels are answered differently from rows")
	var got []byte
	for i := range n {
		got = append(got, c.must(opRows, learn|flagLabels, 3, 1, s.labels[i:i+1], uint64(0), s.rows[i])...)
	}
	wide := got[len(got)-16*(n-10):]
	must.True(t, bytes.Equal(wide, want[len(want)-len(wide):]), "rows one by one are answered differently from rows at once")
	half := n / 2
	c.must(opRows, learn|flagLabels, 4, half, s.labels[:half], uint64(0), slices.Concat(s.rows[:half]...))
	saved := c.must(opSave, 0, 4, 0)
	for range 8 {
		must.Require(t, bytes.Equal(c.must(opSave, 0, 4, 0), saved), "saved twice it is not the same")
	}
	c.must(opClose, 0, 4, 0)
	c.must(opLoad, 0, 4, 0, uint64(2), "[]", saved)
	c.must(opShape, 0, 4, 0, s.names)
	c.must(opClasses, 0, 4, 0, s.classes)
	c.must(opRows, flagLearn|flagLabels, 4, n-half, s.labels[half:], uint64(0), slices.Concat(s.rows[half:]...))
	model := c.must(opExport, 0, 0, 0, map[string]string{"format": "model"})
	for l := range uint16(5) {
		must.True(t, bytes.Equal(c.must(opExport, 0, l, 0, map[string]string{"format": "model"}), model), "learner %d has another model", l)
		var i Inspection
		err := json.Unmarshal(c.must(opInspect, 0, l, 0), &i)
		must.True(t, err == nil && i.Events == uint64(n) && slices.Equal(i.Fields, s.names) && len(i.Classes) == 2, "learner %d: %+v, %v", l, i, err)
	}
}

// TestPredict checks that a learner predicts the same as its model, in this process and in the program that serves the
// model.
func TestPredict(t *testing.T) {
	s := newStream(500)
	c := start(t)
	c.must(opNew, 0, 7, 0, []string{})
	c.must(opShape, 0, 7, 0, s.names)
	c.must(opClasses, 0, 7, 0, s.classes)
	n := len(s.rows)
	c.must(opRows, flagLearn|flagLabels, 7, n, s.labels, uint64(0), s.flat())
	live := c.must(opRows, 0, 7, n, uint64(0), s.flat())
	c.must(opModel, 0, 8, 0, c.must(opExport, 0, 7, 0, map[string]string{"format": "model"}))
	path := must.File(t, "checkpoint", c.must(opSave, 0, 7, 0))
	c.must(opOpen, 0, 9, 0, Address{Address: path})
	answers := c.must(opAnswers, 0, 7, n, uint64(2), s.lines(false))
	model := must.Get(served.Open(t.Context(), path, served.Options{}))(t)
	for l := uint16(8); l < 10; l++ {
		c.must(opShape, 0, l, 0, s.names)
		status, width, got := c.ask(opRows, 0, l, n, uint64(0), s.flat())
		must.Require(t, status == 0 && width == 2, "status %d, %d numbers: %s", status, width, got)
		near(t, got, live)
		near(t, c.must(opRows, flagChoice, l, n, uint64(0), s.flat()), c.must(opRows, flagChoice, 7, n, uint64(0), s.flat()))
	}
	for i, choice := 0, c.must(opRows, flagChoice, 7, n, uint64(0), s.flat()); i < n; i++ {
		a, b := math.Float64frombits(binary.LittleEndian.Uint64(live[16*i:])), math.Float64frombits(binary.LittleEndian.Uint64(live[16*i+8:]))
		got := math.Float64frombits(binary.LittleEndian.Uint64(choice[8*i:]))
		must.Require(t, got == 1 == (b > a), "event %d: class %v of the probabilities %v and %v", i, got, a, b)
	}
	var told struct {
		First   int
		Classes []string
	}
	err := json.Unmarshal(c.must(opClasses, 0, 7, 0, []string{}), &told)
	must.Require(t, err == nil && told.First == len(s.classes), "%v %v", told, err)
	yes := slices.Index(told.Classes, "yes")
	for i, line := range strings.Split(strings.TrimSpace(string(answers)), "\n") {
		var a served.Prediction
		must.Do(t, json.Unmarshal([]byte(line), &a))
		p, err := model.Predict([]byte(strings.Split(s.lines(false), "\n")[i]), 2)
		must.Require(t, err == nil && math.Abs(p.Probabilities["yes"]-a.Probabilities["yes"]) <= 1e-9 && len(a.Explanation) == 2, "event %d: %+v, in the program %+v, %v", i, a, p, err)
		got := math.Float64frombits(binary.LittleEndian.Uint64(live[16*i+8*yes:]))
		must.Require(t, math.Abs(got-a.Probabilities["yes"]) <= 1e-9, "event %d: %v as a number, %v as an answer", i, got, a.Probabilities["yes"])
	}
}

func near(t *testing.T, got, want []byte) {
	t.Helper()
	must.Require(t, len(got) == len(want), "%d bytes, want %d", len(got), len(want))
	for i := 0; i < len(got); i += 8 {
		x, y := math.Float64frombits(binary.LittleEndian.Uint64(got[i:])), math.Float64frombits(binary.LittleEndian.Uint64(want[i:]))
		must.Require(t, math.Abs(x-y) <= 1e-9, "number %d is %v, want %v", i/8, x, y)
	}
}

// TestRegression checks that the response for regression is a value and its interval.
func TestRegression(t *testing.T) {
	c := start(t)
	c.must(opNew, 0, 0, 0, []string{"learner.loss=absolute"})
	c.must(opShape, 0, 0, 0, []string{"x"})
	r := rand.New(rand.NewPCG(3, 4))
	var x, y []float64
	for range 1000 {
		x = append(x, r.NormFloat64())
		y = append(y, 3*x[len(x)-1]+20)
	}
	c.must(opRows, flagLearn|flagLabels|flagWeights, 0, len(x), y, slices.Repeat([]float64{1}, len(x)), uint64(0), x)
	_, width, p := c.ask(opRows, 0, 0, 1, uint64(0), []float64{1})
	value := math.Float64frombits(binary.LittleEndian.Uint64(p))
	must.True(t, width == 3 && math.Abs(value-23) <= 0.5, "%d numbers, %v", width, value)
}

// TestSparse learns sparse rows in which one column determines the class, and checks the predicted probabilities.
func TestSparse(t *testing.T) {
	c := start(t)
	c.must(opNew, 0, 0, 0, []string{})
	c.must(opClasses, 0, 0, 0, []string{"0", "1"})
	r := rand.New(rand.NewPCG(3, 4))
	begins, columns, values, labels := []int64{0}, []int64(nil), []float64(nil), []float64(nil)
	for range 500 {
		label := r.IntN(2)
		columns, values = append(columns, int64(10+label), int64(20+r.IntN(30))), append(values, 1, 1)
		begins, labels = append(begins, int64(len(columns))), append(labels, float64(label))
	}
	c.must(opSparse, flagLearn|flagLabels, 0, 500, labels, begins, columns, values)
	p := c.must(opSparse, 0, 0, 2, []int64{0, 1, 2}, []int64{10, 11}, []float64{1, 1})
	a, b := math.Float64frombits(binary.LittleEndian.Uint64(p[8:])), math.Float64frombits(binary.LittleEndian.Uint64(p[24:]))
	must.True(t, a < 0.2 && b > 0.8, "probabilities %v and %v", a, b)
}

// TestErrors checks that an error names its event, and that the next request succeeds.
func TestErrors(t *testing.T) {
	c := start(t)
	c.must(opNew, 0, 0, 0, []string{"record.max_classes=2"})
	c.must(opClasses, 0, 0, 0, []string{"a", "b", "c"})
	c.must(opShape, 0, 0, 0, []string{"x"})
	c.must(opRows, flagLearn|flagLabels, 0, 2, []float64{0, 1}, uint64(0), []float64{1, 2})
	for _, q := range []struct {
		op, flags byte
		learner   uint16
		events    int
		parts     []any
		status    uint32
		want      string
	}{
		{opRows, flagLearn | flagLabels, 0, 2, []any{[]float64{1, 2}, uint64(0), []float64{1, 2}}, 1, `"row":1,"reason":"label"`},
		{opRows, flagLearn | flagLabels, 0, 1, []any{[]float64{9}, uint64(0), []float64{1}}, 2, "label 9: there are 3"},
		{opRows, flagLearn, 0, 1, []any{uint64(1), []float64{1}}, 2, "shape"},
		{opRows, 0, 0, 2, []any{uint64(0), []float64{1}}, 2, "8 bytes where 2 numbers should be"},
		{opRows, 0, 0, 1, []any{uint64(0), []float64{1, 2}}, 2, "8 bytes after the last row"},
		{opLines, flagLearn, 0, 1, []any{`{"x":`}, 1, `"reason":"syntax"`},
		{opLines, flagLearn | flagLabels, 0, 1, []any{[]float64{0}, `{"x":1,"label":"b"}`}, 1, "(record.label)"},
		{opLines, flagLearn | flagLabels | flagWeights, 0, 2, []any{[]float64{math.NaN(), 0, 0, -1}, "{\"x\":1}\n{\"x\":1}"}, 1, `"row":1,"reason":"weight"`},
		{opSparse, 0, 0, 1, []any{[]int64{0, 1 << 60}}, 2, "sparse rows"},
		{opSparse, 0, 0, 1, []any{[]int64{0, 1}, []int64{-1}, []float64{1}}, 1, "column -1"},
		{opLines, 0, 3, 1, []any{`{}`}, 2, "no learner 3"},
		{opNew, 0, 0, 0, []any{[]string{}}, 2, "there is a learner 0"},
		{opNew, 0, 1, 0, []any{[]string{"learner.optimiser=adagrad"}}, 2, "learner.optimizer"},
		{opOpen, 0, 1, 0, []any{Address{Address: "/no/such/file"}}, 2, "no such file"},
		{opModel, 0, 1, 0, []any{"nonsense"}, 2, ""},
		{opLoad, 0, 1, 0, []any{uint64(99), "x"}, 2, "shorter"},
		{opExport, 0, 0, 0, []any{map[string]string{"format": "gif"}}, 2, "gif"},
		{'?', 0, 0, 0, nil, 2, "unknown operation"},
	} {
		status, _, text := c.ask(q.op, q.flags, q.learner, q.events, q.parts...)
		must.True(t, status == q.status && strings.Contains(string(text), q.want), "%c: status %d, %s, want %d and %q", q.op, status, text, q.status, q.want)
	}
	c.must(opModel, 0, 2, 0, c.must(opExport, 0, 0, 0, map[string]string{"format": "model"}))
	status, _, text := c.ask(opLines, 0, 2, 1, `{"other":1}`)
	must.True(t, status == 1 && strings.Contains(string(text), "other"), "unseen: status %d, %s", status, text)
	c.must(opLines, flagUnseen, 2, 1, `{"other":1}`)
	status, _, text = c.ask(opLines, flagLearn, 2, 1, `{"x":1,"label":"a"}`)
	must.True(t, status == 2 && strings.Contains(string(text), "does not learn"), "learning by a model: status %d, %s", status, text)
	var i Inspection
	err := json.Unmarshal(c.must(opInspect, 0, 0, 0), &i)
	must.True(t, err == nil && i.Events == 3, "%d events (%v), want the two and the one before one that was refused", i.Events, err)
}

// TestOneEventAtATime checks that a request of one event costs one write and allocates nothing, whatever it asks for.
func TestOneEventAtATime(t *testing.T) {
	longtest.NotRaced(t) // under the race detector pools forget
	s := New("test")
	var frames bytes.Buffer
	var writes countingWriter
	head := make([]byte, headSize)
	ask := func(op, flags byte, events int, body []byte) {
		head[0], head[1] = op, flags
		binary.LittleEndian.PutUint32(head[4:], uint32(events))
		binary.LittleEndian.PutUint32(head[12:], uint32(len(body)))
		frames.Write(head)
		frames.Write(body)
		q := must.Get(s.read(&frames))(t)
		must.Do(t, s.write(&writes, q.number, must.Get(s.do(context.Background(), q))(t), nil))
	}
	ask(opNew, 0, 0, []byte("[]"))
	ask(opShape, 0, 0, []byte(`["a","b","c"]`))
	ask(opClasses, 0, 0, []byte(`["no","yes"]`))
	row := make([]byte, 8*5) // a label, a shape and three numbers
	r := rand.New(rand.NewPCG(1, 2))
	next := func() {
		for i := range 3 {
			binary.LittleEndian.PutUint64(row[8*(2+i):], math.Float64bits(r.NormFloat64()))
		}
		binary.LittleEndian.PutUint64(row, math.Float64bits(float64(r.IntN(2))))
	}
	for range 5000 { // numbers are examined more often, and with allocations, among the first 4,096 events
		next()
		ask(opRows, flagLearn|flagLabels, 1, row)
	}
	for _, flags := range []byte{flagLearn | flagLabels, flagUnseen, flagUnseen | flagChoice} {
		body := row
		if flags&flagLabels == 0 {
			body = row[8:]
		}
		writes = 0
		const n = 400
		allocated := testing.AllocsPerRun(n, func() {
			next()
			ask(opRows, flags, 1, body)
		})
		// an event with doubted numbers allocates
		must.True(t, allocated <= 1 && writes == n+1, "flags %d: %v allocations an event, %d writes for %d events", flags, allocated, writes, n+1)
	}
}

type countingWriter int

func (w *countingWriter) Write(p []byte) (int, error) { *w++; return len(p), nil }

func FuzzServe(f *testing.F) {
	frame := func(op, flags byte, events uint32, body string) []byte {
		out := binary.LittleEndian.AppendUint32([]byte{op, flags, 0, 0}, events)
		out = binary.LittleEndian.AppendUint32(out, 7)
		return append(binary.LittleEndian.AppendUint32(out, uint32(len(body))), body...)
	}
	f.Add(slices.Concat(frame(opNew, 0, 0, `[]`), frame(opLines, flagLearn, 1, `{"x":1,"label":"a"}`), frame(opInspect, 0, 0, ""), frame(opSave, 0, 0, "")))
	f.Add(slices.Concat(frame(opNew, 0, 0, `[]`), frame(opShape, 0, 0, `["a"]`), frame(opRows, flagAnswer, 1, strings.Repeat("\x00", 16)), frame(opSparse, 0, 1, strings.Repeat("\x00", 16))))
	f.Add(frame(opHello, 0, 0, ""))
	f.Fuzz(func(t *testing.T, input []byte) {
		if bytes.IndexByte(input, opOpen) >= 0 { // do not open files
			return
		}
		_ = New("test").Serve(context.Background(), bytes.NewReader(input), io.Discard)
	})
}

// TestModelIgnoresLabels checks that an opened model predicts events whatever is in their label field, because it does
// not learn.
func TestModelIgnoresLabels(t *testing.T) {
	for _, settings := range [][]string{{}, {"learner.loss=squared"}} {
		s := newStream(100)
		c := start(t)
		c.must(opNew, 0, 7, 0, settings)
		c.must(opShape, 0, 7, 0, s.names)
		if len(settings) == 0 {
			c.must(opClasses, 0, 7, 0, s.classes)
		}
		c.must(opRows, flagLearn|flagLabels, 7, len(s.rows), s.labels, uint64(0), s.flat())
		c.must(opModel, 0, 8, 0, c.must(opExport, 0, 7, 0, map[string]string{"format": "model"}))
		want := c.must(opLines, 0, 8, 1, `{"a":1,"b":2}`+"\n")
		for _, label := range []string{`"never seen"`, `""`, `null`} {
			got := c.must(opLines, 0, 8, 1, `{"a":1,"b":2,"label":`+label+"}\n")
			must.True(t, string(got) == string(want), "%v: the label %s changes the prediction", settings, label)
		}
	}
}

// TestManyPredictionsPublish checks that a learner publishes its model for a request of many predictions, which are then
// faster, and not for fewer.
func TestManyPredictionsPublish(t *testing.T) {
	in, write := io.Pipe()
	read, out := io.Pipe()
	server, ended := New("test"), make(chan error)
	go func() { ended <- server.Serve(context.Background(), in, out) }()
	c := &client{t: t, in: write, out: read}
	s := newStream(publishFor)
	c.must(opNew, 0, 7, 0, []string{})
	c.must(opShape, 0, 7, 0, s.names)
	c.must(opClasses, 0, 7, 0, s.classes)
	c.must(opRows, flagLearn|flagLabels, 7, len(s.rows), s.labels, uint64(0), s.flat())
	c.must(opRows, 0, 7, publishFor-1, uint64(0), s.flat()[:3*(publishFor-1)])
	must.True(t, server.learners[7].model == nil, "%d predictions publish a model", publishFor-1)
	c.must(opRows, 0, 7, publishFor, uint64(0), s.flat())
	must.True(t, server.learners[7].model != nil, "%d predictions do not publish a model", publishFor)
	write.Close()
	must.Do(t, <-ended)
}

// TestShards checks that the shards of a group answer as the program does, with the shard of a key, that they come back
// from their bytes, and that what only one model can do is refused by name.
func TestShards(t *testing.T) {
	shards := make([]*served.Model, 3) // the last one has no model yet
	for k := range 2 {
		config := record.DefaultConfig()
		config.Format, config.Seed = "json", uint64(k+1)
		s := config.Schema()
		s.Classes = []string{"no", "yes"}
		d := must.Get(record.NewDecoder(config, s))(t)
		var e event.Example
		must.Do(t, d.Decode(t.Context(), record.Record{Value: []byte(`{"label":"no","x":1}`)}, &e))
		weights := make([]float64, e.Features.Index[0]+1)
		weights[e.Features.Index[0]] = float64(1 - 3*k)
		linear := model.NewLinear(s, "logistic", "none", [][]float64{weights}, []float64{0})
		linear.Events = uint64(100 * (k + 1))
		shards[k] = served.New(linear, config)
		shards[k].Version = uint64(k + 1)
		shards[k].Shard = &served.ShardInfo{Number: k, Shards: 3, Partitions: 6, OwnWeight: .75}
	}
	set := served.NewSet(shards)
	var file bytes.Buffer
	must.Do(t, encodeShards(&file, set))
	c := start(t)
	c.must(opModel, 0, 8, 0, file.String())
	var is Inspection
	must.Do(t, json.Unmarshal(c.must(opInspect, 0, 8, 0), &is))
	must.True(t, is.Shards == 2 && is.Keyed && is.Events == 300 && len(is.Classes) == 2, "%+v", is)

	var keyed, plain, want strings.Builder
	const n = 40
	differ := 0
	for i := range n {
		key, line := fmt.Sprint("user", i), fmt.Sprintf(`{"x":%d}`, i%5-2)
		fmt.Fprintf(&keyed, "%s\n%s\n", key, line)
		fmt.Fprintln(&plain, line)
		answer := must.Get(set.PredictRecord(t.Context(), record.Record{Key: []byte(key), Value: []byte(line)}, 0))(t)
		mean := must.Get(set.Predict([]byte(line), 0))(t)
		if answer.Score != mean.Score {
			differ++
		}
		fmt.Fprintf(&want, "%s\n", must.Get(json.Marshal(answer))(t))
	}
	must.True(t, differ > n/3, "only %d answers depend on the key", differ)
	must.Equal(t, string(c.must(opAnswers, flagKeys, 8, n, uint64(0), keyed.String())), want.String(), "answers with keys")
	must.True(t, string(c.must(opAnswers, 0, 8, n, uint64(0), plain.String())) != want.String(), "keys change nothing")

	must.Equal(t, string(c.must(opExport, 0, 8, 0, map[string]string{"format": "model"})), file.String(), "exported shards")
	for _, format := range []string{"onnx", "json"} {
		_, _, said := c.ask(opExport, 0, 8, 0, map[string]string{"format": format})
		must.True(t, strings.Contains(string(said), `"unsupported"`) && strings.Contains(string(said), "shard=0"), "%s", said)
	}
	status, _, said := c.ask(opLines, 0, 8, 1, "{}\n")
	must.True(t, status == 2, "numbers of a set: %d %s", status, said)
	for _, size := range []int{len(shardsMark), len(shardsMark) + 3, file.Len() - 1} {
		status, _, said := c.ask(opModel, 0, 9, 0, file.String()[:size])
		must.True(t, status == 2 && strings.Contains(string(said), `"damaged"`), "%d bytes: %d %s", size, status, said)
	}
}

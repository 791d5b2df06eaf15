package stdio

// This file learns and predicts the events of a request.

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/stream/record"
)

// room is scratch memory for one request.
type room struct {
	example  event.Example
	declared event.Example // the event with detected faults declared missing
	labels   []float64
	weights  []float64
	values   []float64
	begins   []int64
	columns  []int64
	text     []byte
	scores   []float64
	chances  []float64
	out      []byte
}

// If a request has at least publishFor events to predict, the learner first publishes its model, which predicts faster
// than the learner.
const publishFor = 16

// batch holds the events of a request, in order. Its numbers are in the room of the learner.
type batch struct {
	op      byte
	n       int
	lines   []byte // those that are not decoded yet
	rows    *record.Rows
	columns int // number of columns of a row
}

// decode fills e from event i; events are decoded in order.
func (b *batch) decode(ctx context.Context, l *learner, i int, head record.Record, e *event.Example) error {
	r := &l.room
	switch b.op {
	case opLines:
		head.Value, b.lines, _ = bytes.Cut(b.lines, []byte{'\n'})
		return l.json.Decode(ctx, head, e)
	case opRows:
		b.rows.Decode(head, r.values[i*b.columns:(i+1)*b.columns], e)
	default:
		from, to := r.begins[i], r.begins[i+1]
		l.sparse.Decode(head, r.columns[from:to], r.values[from:to], e)
	}
	return nil
}

// take learns or predicts the events of a request. The request borrows its payload.
func (l *learner) take(ctx context.Context, q request) (a answer, err error) {
	r, learn := &l.room, q.flags&flagLearn != 0
	if learn && l.online == nil {
		return a, errors.New("a model that was loaded does not learn: load a checkpoint that a learner saved")
	}
	p := q.payload
	if l.model != nil && l.model.Shards() != nil {
		return a, errors.New("the shards of a group take only lines of JSON, with their keys: ask for answers")
	}
	if q.flags&flagLabels != 0 {
		if r.labels, p, err = numbers(p, q.events, r.labels); err != nil {
			return a, err
		}
	}
	if q.flags&flagWeights != 0 {
		if r.weights, p, err = numbers(p, q.events, r.weights); err != nil {
			return a, err
		}
	}
	b, err := l.batch(q.op, q.events, p)
	if err != nil {
		return a, err
	}
	if !learn && q.events >= publishFor {
		l.now()
	}
	r.out = r.out[:0]
	for i := range b.n {
		if err := l.one(ctx, q.flags, i, &b, &a.width); err != nil {
			return a, err
		}
	}
	if a.width == 0 {
		a.width = l.width(q.flags)
	}
	a.payload = r.out
	return a, nil
}

// batch finds the events of a payload.
func (l *learner) batch(op byte, n int, p []byte) (b batch, err error) {
	r := &l.room
	b.op, b.n = op, n
	switch op {
	case opLines:
		b.lines = p
	case opRows:
		if len(p) < 8 || binary.LittleEndian.Uint64(p) >= uint64(len(l.rows)) {
			return b, errors.New("rows of a shape that is not known")
		}
		shape := binary.LittleEndian.Uint64(p)
		b.rows, b.columns = l.rows[shape], l.widths[shape]
		if r.values, p, err = numbers(p[8:], n*b.columns, r.values); err != nil {
			return b, err
		}
	default:
		if r.begins, p, err = numbers(p, n+1, r.begins); err != nil {
			return b, err
		}
		all := r.begins[n]
		if !slices.IsSorted(r.begins) || r.begins[0] != 0 || all < 0 || all > int64(len(p)/16) {
			return b, errors.New("sparse rows that do not begin where the one before ends")
		}
		if r.columns, p, err = numbers(p, int(all), r.columns); err != nil {
			return b, err
		}
		if r.values, p, err = numbers(p, int(all), r.values); err != nil {
			return b, err
		}
	}
	if op != opLines && len(p) > 0 {
		return b, fmt.Errorf("%d bytes after the last row", len(p))
	}
	return b, nil
}

// one learns or predicts event i, and appends the prediction to the response.
func (l *learner) one(ctx context.Context, flags byte, i int, b *batch, width *int) error {
	r := &l.room
	e := &r.example
	head := record.Record{Unlabeled: true} // a prediction needs no label
	if flags&flagLabels != 0 && !math.IsNaN(r.labels[i]) {
		label, err := l.label(r.labels[i])
		if err != nil {
			return err
		}
		head.Label, head.Unlabeled = label, false
	} else if flags&flagLearn != 0 && flags&flagLabels == 0 {
		head.Unlabeled = false // JSON events may contain their labels
	}
	if err := b.decode(ctx, l, i, head, e); err != nil {
		return err
	}
	if flags&flagWeights != 0 && e.Refused == nil {
		if e.Weight = r.weights[i]; !(e.Weight >= 0 && e.Weight <= event.MaxMagnitude) {
			return &rowError{i, event.ReasonWeight, fmt.Sprintf("weight %v: want a number from 0 to 1e30", e.Weight)}
		}
	}
	if e.Refused == nil && flags&flagLearn != 0 {
		e.Refused = l.online.Refusal(e)
	}
	if e.Refused != nil {
		return &rowError{i, e.Refused.Reason, e.Refused.Detail}
	}
	if l.model != nil && flags&flagLearn == 0 && (b.n > 1 || l.online == nil) {
		return l.ofModel(flags, i, e, width)
	}
	if flags&flagLearn != 0 {
		p := l.online.Learn(e, nil)
		l.model = nil
		if flags&flagAnswer != 0 {
			l.append(flags, p.Scores, p.Decision, [3]float64{p.Value, p.Low, p.High}, width)
		}
		return nil
	}
	p := l.online.Predict(e)
	if b.n > 1 { // the last label is for the event directly after it
		p = p.Alone()
	}
	l.append(flags, p.Scores, p.Decision, [3]float64{p.Value, p.Low, p.High}, width)
	return nil
}

// ofModel appends the prediction of a model to the response.
func (l *learner) ofModel(flags byte, i int, came *event.Example, width *int) error {
	r, m := &l.room, l.model
	if flags&flagUnseen == 0 {
		if err := m.OnlyUnseen(came, l.schema); err != nil {
			return &rowError{i, "unseen", err.Error()}
		}
	}
	e := m.Declare(came, &r.declared)
	r.scores = slices.Grow(r.scores[:0], m.Outputs)[:m.Outputs]
	scores := m.Score(e, r.scores)
	var number [3]float64
	if l.regression() {
		value := m.Value(scores[0])
		low, high := m.Interval(value, model.ScoreVariance(m.Model, e))
		if !(low <= high) {
			low, high = math.NaN(), math.NaN()
		}
		number = [3]float64{value, low, high}
	}
	l.append(flags, scores, m.Decision(), number, width)
	return nil
}

// append appends a prediction to the response.
func (l *learner) append(flags byte, scores []float64, d model.Decision, number [3]float64, width *int) {
	r := &l.room
	switch {
	case flags&flagChoice != 0 && !l.regression():
		scores = append(r.chances[:0], float64(d.Predict(scores)))
	case flags&flagScores != 0:
	case l.regression():
		scores = number[:]
	default:
		k := max(2, len(scores))
		r.chances = d.Probabilities(scores, slices.Grow(r.chances[:0], k)[:k])
		scores = r.chances[:max(2, min(len(r.chances), len(l.schema.Classes)))]
	}
	l.put(scores, width)
}

// put appends the numbers of one event to the response. All events of a response have equally many numbers: when a
// class is added, earlier events get zeros.
func (l *learner) put(values []float64, width *int) {
	r := &l.room
	if was := *width; was != len(values) && was > 0 {
		wider := make([]byte, 0, 2*len(r.out))
		for ; len(r.out) > 0; r.out = r.out[8*was:] {
			wider = append(wider, r.out[:8*was]...)
			wider = append(wider, make([]byte, 8*(len(values)-was))...)
		}
		r.out = wider
	}
	*width = len(values)
	for _, x := range values {
		r.out = binary.LittleEndian.AppendUint64(r.out, math.Float64bits(x))
	}
}

// regression reports whether labels are regression targets.
func (l *learner) regression() bool { return l.schema.Target != loss.Sign }

// label returns the text of a label given as a number.
func (l *learner) label(x float64) ([]byte, error) {
	if l.regression() {
		l.room.text = strconv.AppendFloat(l.room.text[:0], x, 'g', -1, 64)
		return l.room.text, nil
	}
	if i := int(x); float64(i) == x && i >= 0 && i < len(l.classes) {
		return l.classes[i], nil
	}
	return nil, fmt.Errorf("label %v: there are %d", x, len(l.classes))
}

// width returns the number of values in the response for an event.
func (l *learner) width(flags byte) int {
	switch k := len(l.schema.Classes); {
	case flags&flagChoice != 0 && !l.regression():
		return 1
	case l.regression() && flags&flagScores == 0:
		return 3
	case l.regression() || flags&flagScores != 0 && k <= 2:
		return 1
	default:
		return max(2, k)
	}
}

// answers returns the HTTP server's response for each line of JSON.
func (l *learner) answers(ctx context.Context, q request) (a answer, err error) {
	if len(q.payload) < 8 {
		return a, errors.New("answers without the number of features to explain")
	}
	explain, p := binary.LittleEndian.Uint64(q.payload), q.payload[8:]
	m := l.now()
	for i := range q.events {
		var key, line []byte
		if q.flags&flagKeys != 0 {
			key, p, _ = bytes.Cut(p, []byte{'\n'})
		}
		line, p, _ = bytes.Cut(p, []byte{'\n'})
		answer, err := m.PredictRecord(ctx, record.Record{Key: key, Value: line}, int(min(explain, math.MaxInt32)))
		var refused *event.Refusal
		switch {
		case errors.As(err, &refused):
			return a, &rowError{i, refused.Reason, refused.Detail}
		case err != nil:
			return a, err
		case answer.OnlyUnseen && q.flags&flagUnseen == 0:
			return a, &rowError{i, "unseen", m.UnseenError(answer.Unseen).Error()}
		}
		text, err := json.Marshal(answer)
		if err != nil {
			return a, err
		}
		a.payload = append(append(a.payload, text...), '\n')
	}
	return a, nil
}

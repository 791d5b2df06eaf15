// Package stdio serves another program that learns and predicts. Requests and responses are frames on standard input
// and output, for many learners in one process. The Python package starts it.
//
// A request is a head of 16 bytes and a payload. The head has an operation and flags, one byte each, and the number of
// a learner (uint16). The number of events in the payload, the number of the request, and the size of the payload in
// bytes follow (uint32). A response has a status, the number of values per event, the number of its request, and a size
// (uint32), and a payload of that size. The status is 0, 1 for a refused event, or 2 for any other error. The payload is
// numbers, JSON, the bytes of a file, or the error as JSON. Numbers are little-endian; in payloads they are float64
// unless stated otherwise.
package stdio

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"

	"blankout/app/served/export"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/online"
)

// Protocol is the version of the frames. A client requests it first, with opHello.
const Protocol = 2

// The operations, with the content of the request and of the answer. docs/reference.md is generated from these
// comments.
const (
	opHello   = 'h' // empty request; answer: JSON {"version": …, "protocol": 2}
	opNew     = 'n' // create a learner: JSON list of settings, ["learner.loss=logistic", "record.max_classes=5"]
	opLoad    = 'l' // load a saved learner: size of the list of settings (uint64), the list, a checkpoint
	opOpen    = 'o' // open a model for predictions: JSON {"address": FILE, DIRECTORY or URL, "token": …, "missing_policy": …, "shard": number of one shard of a group, "settings": […]}
	opLook    = 'u' // look for a newer model at the address of this one: JSON, an unused number; answer: JSON, whether a newer model now has that number
	opModel   = 'b' // open a model for predictions: the bytes of a model, checkpoint or snapshot
	opClose   = 'x' // discard the learner or model
	opShape   = 's' // add a shape of rows: JSON, the names of the columns; answer: JSON, the number of this shape, from 0
	opClasses = 'c' // append labels to the list in which event labels are indices: JSON; answer: JSON, {"first": index of the first of these labels, "classes": the classes in the order of probabilities}
	opInspect = 'i' // empty request; answer: JSON with events, classes, fields, measures, forecast and warnings
	opSave    = 'w' // save: empty, or JSON that i returns as client after loading; answer: the bytes of a checkpoint
	opExport  = 'e' // export: JSON {"format": "model", "onnx", "json" or "text", "missing_policy": …}; answer: that file
	opAnswers = 'a' // predict as HTTP: number of features to explain (uint64), lines of JSON, with the flag for keys before each event a line with the key of its record; answer: lines of JSON as from POST /v1/predict

	opLines  = 'J' // learn or predict lines of JSON, see the flags
	opRows   = 'R' // learn or predict rows: the number of a shape (uint64), then rows of float64; NaN is null
	opSparse = 'S' // learn or predict sparse rows: starts of the rows and the end of the last (int64), columns from 0 (int64), values (float64)
)

// The flags of opLines, opRows, opSparse and opAnswers.
const (
	flagLearn   = 1 << iota // learn the events; otherwise only predict
	flagAnswer              // answer with the prediction of each event, before it is learned
	flagLabels              // the payload begins with a float64 label for each event: an index in the list of c, or the target; NaN means no label
	flagWeights             // the payload then has a float64 weight for each event
	flagScores              // answer with scores instead of probabilities, or of value, low and high
	flagUnseen              // also predict events in which no feature has been seen, which are otherwise refused
	flagChoice              // answer with the index of the predicted class, in the order of c
	flagKeys                // of a: before each event there is a line with its key
)

// Server holds the learners of one process.
type Server struct {
	version  string
	learners map[uint16]*learner
	head     [headSize]byte
	payload  []byte // payload of the current request
	frame    []byte // current response
}

// headSize is the size of the head of a request and of a response.
const headSize = 16

// New returns a Server; version is the program's version.
func New(version string) *Server { return &Server{version: version, learners: map[uint16]*learner{}} }

// request is a request of a client. Its payload is borrowed, except for opLoad and opModel.
type request struct {
	op, flags byte
	learner   uint16
	events    int
	number    uint32
	payload   []byte
}

// answer is the response to a request.
type answer struct {
	width   int // number of values per event
	payload []byte
}

// Serve handles requests until the input or ctx ends.
func (s *Server) Serve(ctx context.Context, input io.Reader, output io.Writer) error {
	in := bufio.NewReaderSize(input, 1<<16)
	defer s.closeAll()
	for ctx.Err() == nil {
		q, err := s.read(in)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("reading a request: %w", err)
		}
		a, err := s.do(ctx, q)
		if err := s.write(output, q.number, a, err); err != nil {
			return fmt.Errorf("writing an answer: %w", err)
		}
	}
	return ctx.Err()
}

func (s *Server) read(in io.Reader) (q request, err error) {
	h := s.head[:]
	if _, err := io.ReadFull(in, h); err != nil {
		return q, err
	}
	q = request{op: h[0], flags: h[1], learner: binary.LittleEndian.Uint16(h[2:]), events: int(binary.LittleEndian.Uint32(h[4:])), number: binary.LittleEndian.Uint32(h[8:])}
	payload := s.payload[:0]
	if q.op == opLoad || q.op == opModel { // the learner keeps the memory of the payload
		payload = nil
	}
	for rest := binary.LittleEndian.Uint32(h[12:]); rest > 0 && err == nil; { // allocates about as many bytes as arrive, even if the head claims more
		at := len(payload)
		n := min(rest, uint32(max(at, 1<<16)))
		payload = slices.Grow(payload, int(n))[:at+int(n)]
		if _, err = io.ReadFull(in, payload[at:]); errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		rest -= n
	}
	if q.payload = payload; q.op != opLoad && q.op != opModel {
		s.payload = payload
	}
	return q, err
}

// rowError reports which event of a request was refused. Earlier events of the request have been learned, but have no
// predictions in the response.
type rowError struct {
	Row    int          `json:"row"`
	Reason event.Reason `json:"reason"`
	Detail string       `json:"detail"`
}

func (e *rowError) Error() string { return fmt.Sprintf("event %d: %s: %s", e.Row, e.Reason, e.Detail) }

// failure is an error that does not concern a single event.
type failure struct {
	Kind string `json:"kind"` // see kindOf
	Text string `json:"text"`
}

// kindOf returns the kind of an error, or "" if clients need not distinguish it.
func kindOf(err error) string {
	switch {
	case errors.Is(err, checkpoint.ErrDamaged):
		return "damaged"
	case errors.Is(err, checkpoint.ErrForeign):
		return "foreign"
	case errors.Is(err, checkpoint.ErrNewer):
		return "newer"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, checkpoint.ErrNone):
		return "missing"
	case errors.Is(err, errSettings), errors.As(err, new(*event.KeyError)), errors.As(err, new(*online.MismatchError)):
		return "settings"
	case errors.As(err, new(*export.RefusedError)), errors.Is(err, errors.ErrUnsupported):
		return "unsupported"
	case errors.Is(err, errOpening):
		return "unreachable"
	}
	return ""
}

// write writes the response to the request of a number, with one call of output.Write if it is small.
func (s *Server) write(output io.Writer, number uint32, a answer, failed error) error {
	status := uint32(0)
	if failed == nil && uint64(len(a.payload)) > math.MaxUint32 {
		failed = fmt.Errorf("the answer has %d bytes, more than 4 GiB: ask for fewer events at a time", len(a.payload))
	}
	if failed != nil {
		var refused *rowError
		var said any = failure{kindOf(failed), failed.Error()}
		if status = 2; errors.As(failed, &refused) {
			status, said = 1, refused
		}
		a, _ = jsonAnswer(said) // strings and a number always encode
	}
	frame := binary.LittleEndian.AppendUint32(s.frame[:0], status)
	frame = binary.LittleEndian.AppendUint32(frame, uint32(a.width))
	frame = binary.LittleEndian.AppendUint32(frame, number)
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(a.payload)))
	rest := a.payload
	if len(rest) < 1<<16 {
		frame, rest = append(frame, rest...), nil
	}
	s.frame = frame
	_, err := output.Write(frame)
	if err == nil && len(rest) > 0 {
		_, err = output.Write(rest)
	}
	return err
}

// do handles a request.
func (s *Server) do(ctx context.Context, q request) (a answer, err error) {
	switch q.op {
	case opHello:
		return jsonAnswer(map[string]any{"version": s.version, "protocol": Protocol})
	case opNew:
		return a, s.add(q.learner, func() (*learner, error) { return newLearner(q.payload) })
	case opLoad:
		return a, s.add(q.learner, func() (*learner, error) { return loadLearner(q.payload) })
	case opOpen:
		return a, s.add(q.learner, func() (*learner, error) { return openModel(ctx, q.payload) })
	case opModel:
		return a, s.add(q.learner, func() (*learner, error) { return readModel(q.payload) })
	}
	l := s.learners[q.learner]
	if l == nil {
		return a, fmt.Errorf("there is no learner %d", q.learner)
	}
	switch q.op {
	case opClose:
		delete(s.learners, q.learner)
		return a, l.close()
	case opLook:
		return s.look(ctx, l, q.payload)
	case opShape:
		return l.addShape(q.payload)
	case opClasses:
		return l.addClasses(q.payload)
	case opInspect:
		return l.inspect()
	case opSave:
		return l.save(q.payload)
	case opExport:
		return l.export(q.payload)
	case opAnswers:
		return l.answers(ctx, q)
	case opLines, opRows, opSparse:
		return l.take(ctx, q)
	}
	return a, fmt.Errorf("unknown operation %q", q.op)
}

// add adds a learner under an unused number.
func (s *Server) add(number uint16, make func() (*learner, error)) error {
	if s.learners[number] != nil {
		return fmt.Errorf("there is a learner %d", number)
	}
	l, err := make()
	if err == nil {
		s.learners[number] = l
	}
	return err
}

// look checks the source of a model for a newer model, and adds that under a separate number.
func (s *Server) look(ctx context.Context, l *learner, payload []byte) (a answer, err error) {
	var number uint16
	if err := json.Unmarshal(payload, &number); err != nil {
		return a, fmt.Errorf("the number of a newer model: %w", err)
	}
	if l.source == nil {
		return a, errors.New("the model has no address where a newer one could be")
	}
	m, err := l.source.Look(ctx)
	if err == nil && m != nil && l.shard != nil {
		m, err = m.OneShard(*l.shard)
	}
	if err != nil {
		return a, fmt.Errorf("%w: %w", errOpening, err)
	}
	if m != nil {
		err = s.add(number, func() (*learner, error) {
			newer := &learner{}
			return newer, newer.setModel(m)
		})
	}
	if err != nil {
		return a, err
	}
	return jsonAnswer(m != nil)
}

func (s *Server) closeAll() {
	for _, l := range s.learners {
		_ = l.close() // ignore the error, because the program ends
	}
}

func jsonAnswer(of any) (a answer, err error) {
	a.payload, err = json.Marshal(of)
	return a, err
}

// numbers reads n values of 8 bytes from the start of p, into the memory of out, and returns the rest of p.
func numbers[T int64 | float64](p []byte, n int, out []T) (read []T, rest []byte, err error) {
	if n < 0 || len(p)/8 < n {
		return nil, nil, fmt.Errorf("%d bytes where %d numbers should be", len(p), n)
	}
	read = slices.Grow(out[:0], n)[:n]
	size, err := binary.Decode(p, binary.LittleEndian, read)
	return read, p[size:], err
}

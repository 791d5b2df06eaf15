package group

// This file holds what those who solve a group's exact problem together write to each
// other: a call in the ledger, and messages in a ledger of their own.

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"blankout/internal/coder"
	"blankout/stream"
)

// Call is a record of the ledger that asks the members to solve the exact problem of a
// base together. The fold passes it over.
type Call struct {
	Job    MemberID // names what is asked for
	Base   int64    // stream.Base.Offset
	From   int64    // offset of the job's first message in the solve topic
	Window uint64   // validate.Config.Window, of all partitions together
}

const callMagic, messageMagic = "bkocall", "bkosolv"

// Encode returns the call's bytes; state has its fields in order.
func (c *Call) Encode() []byte {
	to := &coder.Coder{Out: append([]byte(callMagic), formatVersion)}
	c.state(to)
	return seal(to.Out)
}

// DecodeCall reads what Encode wrote. The error says what is wrong with the bytes.
func DecodeCall(data []byte) (*Call, error) {
	data, err := unseal(callMagic, data)
	if err != nil {
		return nil, fmt.Errorf("decoding a call: %w", err)
	}
	c, from := &Call{}, coder.Read(data)
	if c.state(from); !from.Done() {
		return nil, fmt.Errorf("decoding a call: %d bytes do not fit its format", len(data))
	}
	return c, nil
}

func (c *Call) state(to *coder.Coder) {
	memberState(to, &c.Job)
	to.Int64(&c.Base)
	to.Int64(&c.From)
	to.Uint(&c.Window)
}

// about says what a message is.
type about uint64

// The kinds of messages: those of the member that asks, and those of members that answer.
const (
	aboutWaiting  about = iota + 1 // who asked is still there
	aboutColumns                   // the members of Parts have these parts; the vector is all columns
	aboutQuestion                  // a joint.Question, of Round
	aboutEnd                       // no more will be asked
	aboutClaim                     // a member reads Parts again
	aboutWorking                   // it is at work
	aboutReady                     // it has read Part, of so many Counts; the vector is its columns
	aboutAnswer                    // a joint.Answer of Part to the question of Round
	aboutFailure                   // it cannot go on: Text; with Counts, because the base is gone
)

// message is a record of the solve topic.
type message struct {
	Job     MemberID
	Author  MemberID // zero: who asked
	About   about
	Round   uint64
	Part    part
	Parts   []part
	Ask     uint64
	Output  int64
	Numbers []float64 // scalars of a question, sums of an answer
	Counts  []uint64  // of aboutReady: events learned, records read, 1 if they are those that were counted
	Text    string
	Has     bool // a vector, which may be empty
	Chunks  []ChunkRef

	vector []byte // of the chunks together
}

// part is a partition, and the member that has it.
type part struct {
	Topic     string
	Partition int32
	Member    MemberID
}

func (m *message) encode() []byte {
	to := &coder.Coder{Out: append([]byte(messageMagic), formatVersion)}
	m.state(to)
	return seal(to.Out)
}

func decodeMessage(data []byte) (*message, error) {
	data, err := unseal(messageMagic, data)
	if err != nil {
		return nil, fmt.Errorf("decoding a message: %w", err)
	}
	m, from := &message{}, coder.Read(data)
	if m.state(from); !from.Done() {
		return nil, fmt.Errorf("decoding a message: %d bytes do not fit its format", len(data))
	}
	return m, nil
}

func (m *message) state(to *coder.Coder) {
	memberState(to, &m.Job)
	memberState(to, &m.Author)
	to.Uint((*uint64)(&m.About))
	to.Uint(&m.Round)
	partState(to, &m.Part)
	list(to, &m.Parts, 32, func(p *part) { partState(to, p) })
	to.Uint(&m.Ask)
	to.Int64(&m.Output)
	list(to, &m.Numbers, 8, func(x *float64) { // which need not be finite
		bits := math.Float64bits(*x)
		to.Uint(&bits)
		*x = math.Float64frombits(bits)
	})
	list(to, &m.Counts, 8, func(x *uint64) { to.Uint(x) })
	text(to, &m.Text)
	has := uint64(0)
	if m.Has {
		has = 1
	}
	to.Uint(&has)
	m.Has, to.Failed = has == 1, to.Failed || has > 1
	list(to, &m.Chunks, 32, func(r *ChunkRef) { refState(to, r) })
}

func partState(to *coder.Coder, p *part) {
	text(to, &p.Topic)
	number(to, &p.Partition)
	memberState(to, &p.Member)
}

// say writes a message behind the chunks of its vector, and returns how many bytes it wrote.
func say(ctx context.Context, to *stream.Ledger, m *message) (int, error) {
	size := 0
	for rest := m.vector; len(rest) > 0; {
		piece := rest[:min(len(rest), MaxChunk)]
		rest = rest[len(piece):]
		at, err := to.AppendChunk(ctx, piece)
		if err != nil {
			return size, err
		}
		m.Chunks = append(m.Chunks, ChunkRef{Partition: at.Partition, Offset: at.Offset, Hash: chunkHash(piece)})
		size += len(piece)
	}
	data := m.encode()
	_, err := to.AppendCommit(ctx, data)
	return size + len(data), err
}

// heard reads the messages of one side of a job, with their vectors, on a goroutine. The
// goroutine ends with ctx, or after an error, which is the last thing that the channel gives.
type heard struct {
	*message
	err error
}

func hear(ctx context.Context, reader *stream.LedgerReader, wanted func(*message) bool) <-chan heard {
	out := make(chan heard, 64)
	go func() {
		defer close(out)
		defer reader.Close()
		for {
			records, err := reader.Next(ctx)
			for i := 0; err == nil && i < len(records); i++ {
				m, no := decodeMessage(records[i].Value)
				if no != nil || !wanted(m) {
					continue
				}
				for _, ref := range m.Chunks {
					var piece []byte
					if piece, err = reader.Chunk(ctx, stream.Place{Partition: ref.Partition, Offset: ref.Offset}); err != nil {
						break
					}
					if chunkHash(piece) != ref.Hash {
						err = fmt.Errorf("a message's chunk %d/%d is not what was written", ref.Partition, ref.Offset)
						break
					}
					m.vector = append(m.vector, piece...)
				}
				if err == nil {
					select {
					case out <- heard{message: m}:
					case <-ctx.Done():
						return
					}
				}
			}
			if err != nil {
				select {
				case out <- heard{err: err}:
				case <-ctx.Done():
				}
				return
			}
		}
	}()
	return out
}

func packFloats(x []float64) []byte {
	out := make([]byte, 0, 8*len(x))
	for _, v := range x {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(v))
	}
	return out
}

func unpackFloats(data []byte) []float64 {
	out := make([]float64, len(data)/8)
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
	}
	return out
}

func packColumns(x []uint32) []byte {
	out := make([]byte, 0, 4*len(x))
	for _, v := range x {
		out = binary.LittleEndian.AppendUint32(out, v)
	}
	return out
}

func unpackColumns(data []byte) []uint32 {
	out := make([]uint32, len(data)/4)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return out
}

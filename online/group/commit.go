package group

// This file has the records of the commit log (commits, chunks and marks) and their encoding.

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/online"
	"blankout/online/deltas"
)

// MemberID identifies a running member: 16 random bytes.
type MemberID [16]byte

func (m MemberID) String() string { return hex.EncodeToString(m[:]) }

// Span is the range of records of one partition that a commit contains.
type Span struct {
	Topic     string
	TopicID   string // id of the topic, see event.Position
	Partition int32
	From, To  int64  // offset of the first record, and the offset after the last
	Records   uint64 // number of records in the range
	Sum       uint64 // sum of the records' fingerprints modulo 2^64
}

func (s Span) String() string {
	return fmt.Sprintf("%s/%d offsets %d to %d", s.Topic, s.Partition, s.From, s.To)
}

// Advance counts the record at an offset. It implements run.Progress, and never returns an error.
func (s *Span) Advance(offset int64, fingerprint uint64) error {
	s.To, s.Records, s.Sum = offset+1, s.Records+1, s.Sum+fingerprint
	return nil
}

// ChunkRef identifies a chunk in the log by position and content.
type ChunkRef struct {
	Partition int32
	Offset    int64
	Rows      uint32
	Hash      uint64 // chunkHash of the chunk's record
}

// Commit is a record of the commit log. It describes what one member has learned in one interval.
type Commit struct {
	Fingerprint uint64 // hash of the settings that determine the meaning of the weights, see FingerprintHash
	Member      MemberID
	// Architecture is the CPU architecture of the author's program. Programs for different architectures round
	// differently.
	Architecture string
	Seq          uint64 // number of the commit among the member's commits, for users
	// Base is the offset of the last commit log record that the author had applied before it started the delta, or -1
	// if there was no record. Chain is the group's chain hash after that record.
	Base  int64
	Chain uint64
	Spans []Span
	// Fields has the fields, in order, that the author's Schema had when the delta was cut and the merged model did not
	// have.
	Fields []event.Field
	Kind   deltas.Kind
	Events uint64 // number of events in the delta
	Chunks []ChunkRef
}

// Chunk is a part of a Delta.
type Chunk struct {
	Member MemberID
	Seq    uint64
	Index  uint32 // index among the chunks of the delta, from 0
	Delta  deltas.Delta
	Hash   uint64 // hash of the encoded bytes
}

const (
	// MaxChunk is the largest number of bytes of a chunk. Brokers accept records of 1 MB by default.
	MaxChunk = 900_000

	// After each of these there is one byte with the version.
	commitMagic, chunkMagic, markMagic = "bkocomm", "bkochnk", "bkobase"

	formatVersion = 1
	checksumBytes = 8
)

// errDamaged reports that data is not a valid record of this format.
var errDamaged = errors.New("damaged or foreign: its checksum does not fit")

// chunkHash returns the hash of a chunk's bytes, for a ChunkRef.
func chunkHash(data []byte) uint64 { return xxhash.Sum64(data) }

// FingerprintHash returns the hash of the settings, for a Commit.
func FingerprintHash(f online.Fingerprint) uint64 {
	data, err := json.Marshal(f) // map keys are sorted
	if err != nil {
		panic(err) // impossible for a map of strings
	}
	return xxhash.Sum64(data)
}

func seal(data []byte) []byte {
	return binary.LittleEndian.AppendUint64(data, xxhash.Sum64(data))
}

// unseal checks magic, version and checksum, and returns the bytes between them.
func unseal(magic string, data []byte) ([]byte, error) {
	n := len(data) - checksumBytes
	if n < len(magic)+1 || string(data[:len(magic)]) != magic || binary.LittleEndian.Uint64(data[n:]) != xxhash.Sum64(data[:n]) {
		return nil, errDamaged
	}
	if v := data[len(magic)]; v != formatVersion {
		return nil, fmt.Errorf("its version is %d, and this program reads %d: all members of a group must run programs of the same version", v, formatVersion)
	}
	return data[len(magic)+1 : n], nil
}

// Mark is a record of the commit log that contains the hash of a snapshot. It does not change the model. Members
// compare the hash with the hash of their own state.
type Mark struct {
	Member MemberID // author of the snapshot
	Base   int64    // offset of the snapshot, as in stream.Base
	Hash   uint64   // hash of the snapshot's bytes
	CPU    string   // CPU that computed the snapshot, for users
}

// Encode returns the mark's bytes; the method state lists the fields in order.
func (m *Mark) Encode() []byte {
	to := &coder.Coder{Out: append([]byte(markMagic), formatVersion)}
	m.state(to)
	return seal(to.Out)
}

// DecodeMark decodes the result of Encode. The error describes the damage.
func DecodeMark(data []byte) (*Mark, error) {
	data, err := unseal(markMagic, data)
	if err != nil {
		return nil, fmt.Errorf("decoding a snapshot's mark: %w", err)
	}
	m, from := &Mark{}, coder.Read(data)
	if m.state(from); !from.Done() {
		return nil, fmt.Errorf("decoding a snapshot's mark: %d bytes do not fit its format", len(data))
	}
	return m, nil
}

func (m *Mark) state(to *coder.Coder) {
	memberState(to, &m.Member)
	to.Int64(&m.Base)
	to.Uint(&m.Hash)
	text(to, &m.CPU)
}

// Encode returns the commit's bytes; the method state lists the fields in order.
func (c *Commit) Encode() []byte {
	to := &coder.Coder{Out: append([]byte(commitMagic), formatVersion)}
	c.state(to)
	return seal(to.Out)
}

// DecodeCommit decodes the result of Encode. The error describes the damage.
func DecodeCommit(data []byte) (*Commit, error) {
	data, err := unseal(commitMagic, data)
	if err != nil {
		return nil, fmt.Errorf("decoding a commit: %w", err)
	}
	c, from := &Commit{}, coder.Read(data)
	if c.state(from); !from.Done() {
		return nil, fmt.Errorf("decoding a commit: %d bytes do not fit its format", len(data))
	}
	return c, nil
}

func (c *Commit) state(to *coder.Coder) {
	to.Uint(&c.Fingerprint)
	memberState(to, &c.Member)
	text(to, &c.Architecture)
	to.Uint(&c.Seq)
	to.Int64(&c.Base)
	to.Uint(&c.Chain)
	kind := uint64(c.Kind)
	to.Uint(&kind)
	c.Kind = deltas.Kind(kind)
	to.Failed = to.Failed || kind > uint64(deltas.Shared)
	to.Uint(&c.Events)
	list(to, &c.Spans, 48, func(s *Span) {
		text(to, &s.Topic)
		text(to, &s.TopicID)
		number(to, &s.Partition)
		to.Int64(&s.From)
		to.Int64(&s.To)
		to.Uint(&s.Records)
		to.Uint(&s.Sum)
	})
	list(to, &c.Chunks, 32, func(r *ChunkRef) { refState(to, r) })
	list(to, &c.Fields, 16, func(f *event.Field) {
		text(to, &f.Name)
		text(to, &f.Group)
		kind := int32(f.Kind)
		number(to, &kind)
		f.Kind = event.Kind(kind)
		to.Failed = to.Failed || kind < 0 || kind > int32(event.Cross)
	})
}

func refState(to *coder.Coder, r *ChunkRef) {
	number(to, &r.Partition)
	to.Int64(&r.Offset)
	rows := int32(r.Rows)
	number(to, &rows)
	r.Rows = uint32(rows)
	to.Uint(&r.Hash)
}

func memberState(to *coder.Coder, m *MemberID) {
	for i := 0; i < len(m); i += 8 {
		half := binary.LittleEndian.Uint64(m[i:])
		to.Uint(&half)
		binary.LittleEndian.PutUint64(m[i:], half)
	}
}

// list encodes or decodes a slice. size is the smallest number of bytes of an encoded element.
func list[T any](c *coder.Coder, p *[]T, size int, one func(*T)) {
	n := uint64(len(*p))
	c.Uint(&n)
	if c.Decode {
		if n > uint64(len(c.In)/size) {
			c.Failed = true
			return
		}
		*p = nil
		if n > 0 {
			*p = make([]T, n)
		}
	}
	for i := range *p {
		one(&(*p)[i])
	}
}

func text(c *coder.Coder, s *string) {
	b := []byte(*s)
	c.Bytes(&b)
	*s = string(b)
}

func number(c *coder.Coder, x *int32) {
	v := int64(*x)
	c.Int64(&v)
	*x = int32(v)
	c.Failed = c.Failed || v != int64(*x)
}

// EncodeChunks encodes a Delta as one or more chunks of at most MaxChunk bytes. refs describes the chunks for a Commit.
// The caller must add the positions to refs after appending the chunks to the log.
func EncodeChunks(member MemberID, seq uint64, d *deltas.Delta) (chunks [][]byte, refs []ChunkRef) {
	room := MaxChunk - checksumBytes
	state, row := d.State, 0
	for first := true; first || len(state) > 0 || row < len(d.Columns); first = false {
		most := len(state) + (len(d.Columns)-row)*(d.MinRowBytes()+4) + 256 // exceeded only if rows have moments
		c := &coder.Coder{Out: append(append(make([]byte, 0, min(most, MaxChunk)), chunkMagic...), formatVersion)}
		memberState(c, &member)
		index, kind, precision, width := uint64(len(chunks)), uint64(d.Kind), uint64(d.Precision), uint64(d.Width)
		for _, x := range []*uint64{&seq, &index, &kind, &precision, &width} {
			c.Uint(x)
		}
		part := state[:min(len(state), room-len(c.Out)-16)]
		state = state[len(part):]
		c.Bytes(&part)
		at := len(c.Out) // index of the number of rows
		out, from, column := binary.LittleEndian.AppendUint32(c.Out, 0), row, uint32(0)
		for rowBytes := d.MaxRowBytes(); row < len(d.Columns) && len(out)+rowBytes <= room; row++ {
			out = binary.AppendVarint(out, int64(d.Columns[row])-int64(column))
			column = d.Columns[row]
			out = d.AppendRow(out, row)
		}
		binary.LittleEndian.PutUint32(out[at:], uint32(row-from))
		data := seal(out)
		chunks = append(chunks, data)
		refs = append(refs, ChunkRef{Rows: uint32(row - from), Hash: chunkHash(data)})
	}
	return chunks, refs
}

// DecodeChunk decodes a chunk of EncodeChunks. It allocates at most a few times the size of data. The error describes
// the damage.
func DecodeChunk(data []byte) (*Chunk, error) {
	k := &Chunk{Hash: chunkHash(data)}
	data, err := unseal(chunkMagic, data)
	if err != nil {
		return nil, fmt.Errorf("decoding a chunk: %w", err)
	}
	misfit := fmt.Errorf("decoding a chunk: %d bytes do not fit its format", len(data))
	c, d := coder.Read(data), &k.Delta
	memberState(c, &k.Member)
	var index, kind, precision, width uint64
	for _, x := range []*uint64{&k.Seq, &index, &kind, &precision, &width} {
		c.Uint(x)
	}
	c.Bytes(&d.State)
	rows := c.Uint32()
	if c.Failed || index > math.MaxUint32 || kind > uint64(deltas.Shared) || precision != 32 && precision != 64 || width > 1<<18 {
		return nil, misfit
	}
	k.Index, d.Kind, d.Precision, d.Width = uint32(index), deltas.Kind(kind), int(precision), int(width)
	if uint64(rows)*uint64(d.MinRowBytes()) > uint64(len(c.In)) {
		return nil, misfit
	}
	in, column := c.In, int64(0)
	d.Columns, d.Values = make([]uint32, 0, rows), make([]float64, 0, int(rows)*d.Width)
	for range rows {
		step, n := binary.Varint(in)
		column += step
		if n <= 0 || column < 0 || column > math.MaxUint32 {
			return nil, misfit
		}
		d.Columns = append(d.Columns, uint32(column))
		if in = d.ReadRow(in[n:]); in == nil {
			return nil, misfit
		}
	}
	if len(in) > 0 {
		return nil, misfit
	}
	return k, nil
}

// join joins the chunks of a commit, in order, to its Delta. The error names the first chunk that does not fit.
func join(c *Commit, chunks []*Chunk) (*deltas.Delta, error) {
	if len(chunks) != len(c.Chunks) || len(chunks) == 0 {
		return nil, fmt.Errorf("%d of its %d chunks are there", len(chunks), len(c.Chunks))
	}
	d := &deltas.Delta{Kind: c.Kind, Events: c.Events}
	for i, k := range chunks {
		switch {
		case k == nil:
			return nil, fmt.Errorf("chunk %d is not there", i)
		case k.Hash != c.Chunks[i].Hash || k.Member != c.Member || k.Seq != c.Seq || k.Index != uint32(i) || k.Delta.Kind != c.Kind || uint32(len(k.Delta.Columns)) != c.Chunks[i].Rows:
			return nil, fmt.Errorf("chunk %d is another one than was committed", i)
		case i > 0 && (k.Delta.Precision != d.Precision || k.Delta.Width != d.Width):
			return nil, fmt.Errorf("chunk %d is of another width than the first", i)
		}
		if len(chunks) == 1 {
			joined := k.Delta
			joined.Events = c.Events
			return &joined, nil
		}
		d.Precision, d.Width = k.Delta.Precision, k.Delta.Width
		d.State = append(d.State, k.Delta.State...)
		d.Columns = append(d.Columns, k.Delta.Columns...)
		d.Values = append(d.Values, k.Delta.Values...)
	}
	return d, nil
}

package stream

// This file reads Kafka's record batches, format 2, in place, and writes them.
//
//	offset  size
//	     0     8  base offset
//	     8     4  length of the rest
//	    12     4  partition leader epoch
//	    16     1  magic, 2
//	    17     4  CRC-32C of all bytes from offset 21 on
//	    21     2  attributes: codec (bits 0-2), log-append time (3), transactional (4), control (5)
//	    23     4  last offset delta
//	    27     8  first timestamp, ms
//	    35     8  greatest timestamp, ms
//	    43     8  producer id
//	    51     2  producer epoch
//	    53     4  base sequence
//	    57     4  number of records
//	    61        records, compressed together
//
// A record is its length and then attributes (1 byte), timestamp delta, offset delta, key, value and headers. All
// numbers and lengths are zigzag varints; the length -1 is null. A compacted batch may have gaps between offsets, or no
// records at all. The offset after a batch is always base + last offset delta + 1.

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	batchHeader = 61
	batchPrefix = 12 // size of base offset and length; the length field excludes them
	batchCRC    = 21 // start of the checksummed bytes

	flagLogAppendTime = 1 << 3
	flagTransactional = 1 << 4
	flagControl       = 1 << 5
)

// maxUnpacked is the largest uncompressed size of a record batch in a Consumer, so that a malicious batch cannot
// exhaust the memory. Brokers limit a compressed batch to 1 MB.
const maxUnpacked = 64 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// recordBatch is one parsed batch. Records borrows the parsed bytes, compressed with codec().
type recordBatch struct {
	kmsg.RecordBatch
	next int64 // offset after the batch
}

func (b *recordBatch) codec() int8         { return int8(b.Attributes & 7) }
func (b *recordBatch) control() bool       { return b.Attributes&flagControl != 0 }
func (b *recordBatch) transactional() bool { return b.Attributes&flagTransactional != 0 }

// errPartialBatch means that the bytes end before the batch does. Brokers truncate responses to the requested size.
var errPartialBatch = errors.New("record batch cut off")

// parseBatch parses the batch at the start of b and returns the remaining bytes. It verifies the checksum before it
// uses the checksummed bytes.
func parseBatch(b []byte) (batch recordBatch, rest []byte, err error) {
	if len(b) < 17 {
		return batch, b, errPartialBatch
	}
	if magic := b[16]; magic != 2 {
		return batch, b, fmt.Errorf("record batch of format %d, only format 2 (Kafka 0.11 and later) can be read", magic)
	}
	length := int(int32(binary.BigEndian.Uint32(b[8:])))
	if length < batchHeader-batchPrefix {
		return batch, b, fmt.Errorf("record batch of %d bytes, shorter than its header", length)
	}
	if len(b) < batchPrefix+length {
		return batch, b, errPartialBatch
	}
	b, rest = b[:batchPrefix+length], b[batchPrefix+length:]
	if want, got := binary.BigEndian.Uint32(b[17:]), crc32.Checksum(b[batchCRC:], castagnoli); want != got {
		return batch, rest, fmt.Errorf("record batch with checksum %08x, its bytes have %08x", want, got)
	}
	err = batch.ReadFrom(b)
	batch.next = batch.FirstOffset + int64(batch.LastOffsetDelta) + 1
	if err == nil && (batch.LastOffsetDelta < 0 || batch.FirstOffset < 0 || batch.next <= batch.FirstOffset || batch.NumRecords < 0) {
		err = fmt.Errorf("record batch at offset %d with last offset delta %d and %d records", batch.FirstOffset, batch.LastOffsetDelta, batch.NumRecords)
	}
	return batch, rest, err
}

// aborts reports whether a control batch marks the end of an aborted transaction. The key of its only record is a
// version and a type: 0 means abort, 1 means commit.
func (b *recordBatch) aborts() bool {
	r := recordReader{rest: b.Records, left: b.NumRecords}
	var rec rawRecord
	ok, err := r.next(&rec)
	return ok && err == nil && len(rec.key) >= 4 && binary.BigEndian.Uint16(rec.key[2:]) == 0
}

// rawRecord is one record. Its bytes are borrowed. A nil key or value is null.
type rawRecord struct {
	offsetDelta int32
	timeDelta   int64
	key, value  []byte
	headers     []byte // number of headers and the unparsed headers
}

// recordReader iterates over the uncompressed records of a batch.
type recordReader struct {
	rest []byte
	left int32
}

var errRecord = errors.New("record with a length that does not fit its batch")

// next reads one record into rec. It returns false at the end of the batch.
func (r *recordReader) next(rec *rawRecord) (bool, error) {
	if r.left == 0 {
		return false, nil
	}
	length, n := varint(r.rest)
	if n <= 0 || length < 1 || length > int64(len(r.rest)-n) {
		return false, errRecord
	}
	b := r.rest[n : n+int(length)]
	r.rest = r.rest[n+int(length):]
	r.left--
	b = b[1:] // skip the attributes, which are unused
	if rec.timeDelta, n = varint(b); n <= 0 {
		return false, errRecord
	}
	b = b[n:]
	delta, n := varint(b)
	if n <= 0 || delta < 0 || delta > 1<<31-1 {
		return false, errRecord
	}
	rec.offsetDelta = int32(delta)
	var ok bool
	if rec.key, b, ok = varbytes(b[n:]); !ok {
		return false, errRecord
	}
	if rec.value, rec.headers, ok = varbytes(b); !ok {
		return false, errRecord
	}
	return true, nil
}

// parseHeaders parses the headers of a record. Their values borrow b.
func parseHeaders(b []byte) ([]Header, error) {
	r := kbin.Reader{Src: b}
	count := r.VarintArrayLen()
	var headers []Header
	for ; count > 0 && r.Ok(); count-- {
		headers = append(headers, Header{Key: r.VarintString(), Value: r.VarintBytes()})
	}
	if count != 0 || !r.Ok() {
		return nil, errRecord
	}
	return headers, nil
}

// varint reads a zigzag varint. n <= 0 means that b does not begin with one.
func varint(b []byte) (v int64, n int) {
	// One or two bytes suffice for values up to 8191, which are nearly all numbers here.
	if len(b) > 1 {
		if b[0] < 0x80 {
			return int64(b[0]>>1) ^ -int64(b[0]&1), 1
		}
		if b[1] < 0x80 {
			u := uint64(b[0]&0x7f) | uint64(b[1])<<7
			return int64(u>>1) ^ -int64(u&1), 2
		}
	}
	return binary.Varint(b)
}

func varbytes(b []byte) (field, rest []byte, ok bool) {
	length, n := varint(b)
	if n <= 0 || length > int64(len(b)-n) {
		return nil, nil, false
	}
	if b = b[n:]; length < 0 {
		return nil, b, true
	}
	return b[:length:length], b[length:], true
}

// unpacker decompresses the records of a batch into its own memory, which is valid until the next call. gzip and lz4
// use kafka-go's codecs. Snappy and zstd do not: kafka-go's snappy trusts the length in the data and may allocate 4 GB,
// and its zstd does not limit the window.
type unpacker struct {
	limit  int // largest uncompressed size of a batch
	out    []byte
	source bytes.Reader
	zstd   *zstd.Decoder
}

var errUnpacked = errors.New("unpacks to more bytes than allowed")

func (u *unpacker) unpack(codec int8, src []byte) ([]byte, error) {
	u.out = u.out[:0]
	var err error
	switch codec := compress.Compression(codec); codec {
	case compress.None:
		return src, nil
	case compress.Snappy:
		u.out, err = appendSnappy(u.out, src, u.limit)
	case compress.Zstd:
		if u.zstd == nil {
			// The decoder starts no goroutines with a concurrency of 1.
			u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(u.limit)))
			if err != nil {
				return nil, err
			}
		}
		u.out, err = u.zstd.DecodeAll(src, u.out)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
			err = errUnpacked
		}
	case compress.Gzip, compress.Lz4:
		u.source.Reset(src)
		r := codec.Codec().NewReader(&u.source)
		u.out, err = appendAll(u.out, r, u.limit)
		r.Close()
	default:
		return nil, fmt.Errorf("unknown codec %d", codec)
	}
	return u.out, err
}

// appendAll appends the bytes of r to dst. It fails if the result exceeds limit bytes.
func appendAll(dst []byte, r io.Reader, limit int) ([]byte, error) {
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):min(cap(dst), limit+1)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > limit:
			return dst, errUnpacked
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst, err
		}
	}
}

// xerialHeader is the start of snappy data that the Java client's library has divided into frames. Two version numbers
// of 4 bytes follow the header. Each frame is preceded by its length (4 bytes, big-endian). Other clients send one
// block without a header.
var xerialHeader = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

func appendSnappy(dst, src []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialHeader) {
		return appendSnappyBlock(dst, src, limit)
	}
	if len(src) < 16 {
		return dst, snappy.ErrCorrupt
	}
	var err error
	for src = src[16:]; len(src) > 0; {
		if len(src) < 4 {
			return dst, snappy.ErrCorrupt
		}
		n := binary.BigEndian.Uint32(src)
		if src = src[4:]; uint64(n) > uint64(len(src)) {
			return dst, snappy.ErrCorrupt
		}
		if dst, err = appendSnappyBlock(dst, src[:n], limit); err != nil {
			return dst, err
		}
		src = src[n:]
	}
	return dst, nil
}

func appendSnappyBlock(dst, src []byte, limit int) ([]byte, error) {
	n, err := snappy.DecodedLen(src)
	if err != nil {
		return dst, err
	}
	if n > limit-len(dst) {
		return dst, errUnpacked
	}
	if cap(dst)-len(dst) < n {
		dst = append(make([]byte, 0, max(len(dst)+n, 2*cap(dst))), dst...)
	}
	if _, err := snappy.Decode(dst[len(dst):len(dst)+n], src); err != nil {
		return dst, err
	}
	return dst[:len(dst)+n], nil
}

// batchWriter builds a record batch, record by record. The zero value is an empty batch. A batchWriter reuses its
// memory for the next batch.
type batchWriter struct {
	kmsg.RecordBatch // Records are not compressed
	scratch          []byte
}

func (w *batchWriter) reset() {
	w.RecordBatch = kmsg.RecordBatch{Records: w.Records[:0]}
}

// add appends a record with an offset relative to that of the batch.
func (w *batchWriter) add(delta int32, m Message) {
	if w.NumRecords == 0 {
		w.FirstTimestamp, w.MaxTimestamp = m.Time, m.Time
	}
	w.MaxTimestamp = max(w.MaxTimestamp, m.Time)
	r := kmsg.Record{TimestampDelta64: m.Time - w.FirstTimestamp, OffsetDelta: delta, Key: m.Key, Value: m.Value, Headers: m.Headers}
	w.scratch = r.AppendTo(w.scratch[:0])
	body := w.scratch[1:] // without the length, which is not set
	w.Records = append(binary.AppendVarint(w.Records, int64(len(body))), body...)
	w.NumRecords++
	w.LastOffsetDelta = delta
}

// messages returns copies of the records added so far.
func (w *batchWriter) messages() []Message {
	out := make([]Message, w.NumRecords)
	reader := recordReader{rest: bytes.Clone(w.Records), left: w.NumRecords}
	for i := range out {
		var rec rawRecord
		_, err := reader.next(&rec)
		headers, noHeaders := parseHeaders(rec.headers)
		if err = errors.Join(err, noHeaders); err != nil {
			panic(err) // cannot happen: add wrote these bytes
		}
		out[i] = Message{Key: rec.key, Value: rec.value, Time: w.FirstTimestamp + rec.timeDelta, Headers: headers}
	}
	return out
}

// appendTo appends the batch to dst, with the offset, the attributes and the producer of o, compressed with the codec of
// the attributes.
func (w *batchWriter) appendTo(dst []byte, o kmsg.RecordBatch) ([]byte, error) {
	b := w.RecordBatch
	b.FirstOffset, b.Attributes, b.ProducerID, b.ProducerEpoch, b.FirstSequence = o.FirstOffset, o.Attributes, o.ProducerID, o.ProducerEpoch, o.FirstSequence
	if codec := compress.Compression(o.Attributes & 7).Codec(); codec != nil {
		var packed bytes.Buffer
		z := codec.NewWriter(&packed)
		_, err := z.Write(w.Records)
		if err = cmp.Or(err, z.Close()); err != nil {
			return dst, fmt.Errorf("packing records with %s: %w", codec.Name(), err)
		}
		b.Records = packed.Bytes()
	}
	b.Magic, b.Length = 2, int32(batchHeader-batchPrefix+len(b.Records))
	start := len(dst)
	dst = b.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[start+17:], crc32.Checksum(dst[start+batchCRC:], castagnoli))
	return dst, nil
}

package stream

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/internal/streamtest"
)

// testRecord is a record with its offset relative to the base of its batch.
type testRecord struct {
	delta      int32
	key, value string // "" means null
}

// makeBatch returns the bytes of a batch with the offsets [o.FirstOffset, o.FirstOffset+last+1).
func makeBatch(t testing.TB, o kmsg.RecordBatch, last int32, records ...testRecord) []byte {
	t.Helper()
	var w batchWriter
	for _, r := range records {
		var key, value []byte
		if r.key != "" {
			key = []byte(r.key)
		}
		if r.value != "" {
			value = []byte(r.value)
		}
		w.add(r.delta, Message{key, value, 1000 + int64(r.delta), []Header{{Key: "h", Value: []byte("x")}}})
	}
	w.LastOffsetDelta = last
	return must.Get(w.appendTo(nil, o))(t)
}

// sealed sets the checksum of a modified batch and returns the batch.
func sealed(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[batchCRC:], castagnoli))
	return b
}

// TestBatchWriter reads the batches of batchWriter with kafka-go's reader.
func TestBatchWriter(t *testing.T) {
	for codec := range int16(5) {
		raw := makeBatch(t, kmsg.RecordBatch{FirstOffset: 40, Attributes: codec, ProducerID: -1}, 2,
			testRecord{0, "a", "x"}, testRecord{1, "", strings.Repeat("y", 300)}, testRecord{2, "c", ""})
		sized := append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...)
		var set protocol.RecordSet
		must.Get(set.ReadFrom(bytes.NewReader(sized)))(t, "codec", codec)
		var got []string
		for r := range must.All(t, set.Records.ReadRecord) {
			key, _ := protocol.ReadAll(r.Key)
			value, _ := protocol.ReadAll(r.Value)
			got = append(got, fmt.Sprintf("%d %s %d %d %s=%s", r.Offset, key, len(value), r.Time.UnixMilli(), r.Headers[0].Key, r.Headers[0].Value))
		}
		want := []string{"40 a 1 1000 h=x", "41  300 1001 h=x", "42 c 0 1002 h=x"}
		must.EqualSlices(t, got, want, "codec", codec)
	}
}

func TestParseBatchErrors(t *testing.T) {
	good := makeBatch(t, kmsg.RecordBatch{FirstOffset: 5, ProducerID: -1}, 1, testRecord{0, "", "a"}, testRecord{1, "", "b"})
	tests := []struct {
		name string
		edit func(b []byte) []byte
		want string // expected error; "" means errPartialBatch
	}{
		{"a flipped bit", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, "checksum"},
		{"a flipped bit in the header", func(b []byte) []byte { b[58] ^= 1; return b }, "checksum"},
		{"magic 1", func(b []byte) []byte { b[16] = 1; return b }, "format 1"},
		{"magic 9", func(b []byte) []byte { b[16] = 9; return b }, "format 9"},
		{"length 3", func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 3); return b }, "shorter than its header"},
		{"negative length", func(b []byte) []byte { b[8] = 0xff; return b }, "shorter than its header"},
		{"negative last delta", func(b []byte) []byte { b[23] = 0xff; return sealed(b) }, "last offset delta"},
		{"negative base", func(b []byte) []byte { b[0] = 0xff; return b }, "offset -"},
		{"base that overflows", func(b []byte) []byte {
			binary.BigEndian.PutUint64(b, 1<<63-1)
			return b
		}, "last offset delta"},
		{"negative count", func(b []byte) []byte { b[57] = 0xff; return sealed(b) }, "records"},
		{"cut in the body", func(b []byte) []byte { return b[:len(b)-1] }, ""},
		{"cut in the header", func(b []byte) []byte { return b[:30] }, ""},
		{"cut before the magic", func(b []byte) []byte { return b[:9] }, ""},
		{"nothing", func(b []byte) []byte { return nil }, ""},
	}
	for _, test := range tests {
		_, _, err := parseBatch(test.edit(slices.Clone(good)))
		if test.want == "" {
			must.Equal(t, err, errPartialBatch, test.name)
		} else if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	_, rest, err := parseBatch(append(slices.Clone(good), 1, 2, 3))
	must.True(t, err == nil && len(rest) == 3, "good batch: %v, %d bytes after it", err, len(rest))
}

func pack(t testing.TB, codec int8, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := compress.Compression(codec).Codec().NewWriter(&b)
	must.Get(w.Write(data))(t)
	must.Do(t, w.Close())
	return b.Bytes()
}

func TestUnpack(t *testing.T) {
	u := unpacker{limit: 8 << 20}
	long := bytes.Repeat([]byte("kafka "), 100_000)
	for codec := int8(1); codec <= 4; codec++ {
		for _, data := range [][]byte{{}, []byte("short"), long} {
			if len(data) == 0 && codec == 2 {
				continue // kafka-go writes no batch
			}
			got, err := u.unpack(codec, pack(t, codec, data))
			must.True(t, err == nil && bytes.Equal(got, data), "codec %d, %d bytes: got %d, %v", codec, len(data), len(got), err)
		}
		packed := pack(t, codec, long)
		must.Fails(t, must.Err(u.unpack(codec, packed[:len(packed)/2])), "codec", codec, "half of the data unpacks")
		bomb := pack(t, codec, make([]byte, 8<<20+1))
		must.ErrorIs(t, must.Err(u.unpack(codec, bomb)), errUnpacked, "codec", codec, len(bomb), "bytes that unpack to more than the limit")
	}
	got, err := u.unpack(2, snappy.Encode(nil, long))
	must.True(t, err == nil && bytes.Equal(got, long), "bare snappy block: %v", err)
	// One frame and one block that claim 4 GB.
	for _, hostile := range [][]byte{
		append(append(slices.Clone(xerialHeader), 0, 0, 0, 1, 0, 0, 0, 1), 0xff, 0xff, 0xff, 0xff, 1),
		{0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2, 3},
		xerialHeader,
	} {
		must.Fails(t, must.Err(u.unpack(2, hostile)), "unpacking", hostile)
	}
	must.Fails(t, must.Err(u.unpack(7, long)), "unpacking codec 7")
}

// readResponse passes the records of a response through scan and read, like a Consumer at offset next. readResponse
// checks conditions that must hold for any bytes.
func readResponse(t testing.TB, next int64, records []byte, aborted []abortedTransaction) ([]got, error) {
	config := DefaultConsumerConfig()
	d := &textDecoder{}
	c := &Consumer{config: config, schema: event.NewSchema(8, nil, 2), log: streamtest.Log(t), retries: map[string]uint64{}, decoding: decoding{decoder: d, most: config.BatchRecords, log: streamtest.Log(t), unpack: unpacker{limit: 8 << 20}}}
	f := &fetcher{consumer: c, topic: "t", next: next, end: -1, maxBytes: 1 << 20, free: make(chan *fetched, 1)}
	buf := &fetched{from: f, response: fetchResponse{highWater: next + 10, records: records, aborted: aborted}}
	moved, err := f.scan(buf)
	if err != nil {
		return nil, err
	}
	must.Require(t, moved == (f.next > next) && f.next >= next, "from %d to %d, moved %v", next, f.next, moved)
	var out []got
	var b event.Batch
	for last := next; ; {
		b.Examples = b.Examples[:0]
		to := must.Get(c.decoding.read(t.Context(), &b, buf))(t)
		for i := range b.Examples {
			e := &b.Examples[i]
			must.Require(t, e.Offset >= last && e.Offset < to && to <= buf.next, "offset %d after %d, next %d of %d", e.Offset, last, to, buf.next)
			last = e.Offset + 1
			g := got{offset: e.Offset, time: e.Time, key: string(e.Key), refused: e.Refused}
			if e.Refused == nil {
				g.value = d.values[e.Label]
			}
			out = append(out, g)
			must.Require(t, e.Refused == nil || e.Fingerprint != 0, "offset %d has no fingerprint", e.Offset)
		}
		if c.decoding.index == len(buf.batches) {
			must.Require(t, to == buf.next, "ended at %d, not %d", to, buf.next)
			return out, nil
		}
	}
}

func TestReadDamagedRecords(t *testing.T) {
	batch := func() []byte {
		return makeBatch(t, kmsg.RecordBatch{FirstOffset: 10, ProducerID: -1}, 3,
			testRecord{0, "", "a"}, testRecord{1, "", "b"}, testRecord{3, "", "d"})
	}
	packed := func(codec int16) []byte {
		return makeBatch(t, kmsg.RecordBatch{FirstOffset: 10, ProducerID: -1, Attributes: codec}, 3,
			testRecord{0, "", strings.Repeat("a", 1000)}, testRecord{3, "", "d"})
	}
	tests := []struct {
		name   string
		bytes  []byte
		want   string // expected offset:value, or the reason of the refusal
		detail string
	}{
		{"good", batch(), "10:a 11:b 13:d", ""},
		{"second record too long", func() []byte {
			b := batch()
			b[batchHeader+12] = 0x7e
			return sealed(b)
		}(), "10:a 11:decompression", "from offset 11 on"},
		{"more records than there are", func() []byte {
			b := batch()
			b[60]++
			return sealed(b)
		}(), "10:a 11:b 13:d", ""}, // no offset is left for the extra record
		{"offset beyond the batch", func() []byte {
			b := batch()
			b[26] = 2
			return sealed(b)
		}(), "10:a 11:b 12:decompression", "record at offset 13 in a batch [10, 13)"},
		{"unknown codec", func() []byte {
			b := batch()
			b[22] = 6
			return sealed(b)
		}(), "10:decompression", "unknown codec 6"},
		{"cut gzip", func() []byte {
			b := packed(1)
			b = b[:len(b)-9]
			binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
			return sealed(b)
		}(), "10:decompression", "codec 1"},
		{"bomb", func() []byte {
			b := batch()[:batchHeader]
			b[22] = 4
			b = append(b, pack(t, 4, make([]byte, 8<<20+1))...)
			binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
			return sealed(b)
		}(), "10:oversize", "unpacks to more bytes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			good := makeBatch(t, kmsg.RecordBatch{FirstOffset: 20, ProducerID: -1}, 0, testRecord{0, "", "next"})
			records := must.Get(readResponse(t, 10, append(test.bytes, good...), nil))(t)
			var out []string
			for _, r := range records {
				if r.refused != nil {
					out = append(out, fmt.Sprintf("%d:%s", r.offset, r.refused.Reason))
					must.True(t, strings.Contains(r.refused.Detail, test.detail) && bytes.Contains(test.bytes, r.refused.Value) && len(r.refused.Value) != 0,
						"refusal %q with %d bytes", r.refused.Detail, len(r.refused.Value))
				} else {
					out = append(out, fmt.Sprintf("%d:%s", r.offset, r.value))
				}
			}
			must.Equal(t, strings.Join(out, " "), test.want+" 20:next")
		})
	}
}

// FuzzResponse uses arbitrary bytes as the records of a fetch response. If seal is true, it repairs the checksums, so
// that the bytes covered by a checksum are parsed.
func FuzzResponse(f *testing.F) {
	for codec := range int16(5) {
		b := makeBatch(f, kmsg.RecordBatch{FirstOffset: 7, ProducerID: 3, Attributes: codec | flagTransactional}, 4, testRecord{0, "k", "v"}, testRecord{4, "", "w"})
		f.Add(int64(6), int64(7), true, b)
		f.Add(int64(9), int64(100), true, append(b, makeBatch(f, kmsg.RecordBatch{FirstOffset: 12, ProducerID: 3, Attributes: flagControl | flagTransactional}, 0, testRecord{0, "\x00\x00\x00\x00", "x"})...))
		f.Add(int64(7), int64(7), false, b[:len(b)-3])
	}
	f.Fuzz(func(t *testing.T, next, aborted int64, seal bool, b []byte) {
		if next < 0 || next > 1<<62 {
			return
		}
		if seal {
			for rest := b; len(rest) >= batchHeader; {
				n := batchPrefix + int(int32(binary.BigEndian.Uint32(rest[8:])))
				if n < batchHeader || n > len(rest) {
					n = len(rest)
				}
				rest[16] = 2
				sealed(rest[:n])
				rest = rest[n:]
			}
		}
		readResponse(t, next, b, []abortedTransaction{{3, aborted}})

		// The frame around the records has no checksum.
		var x fetchExchange
		x.set("t", 0, next, 1, 1)
		x.version, x.body = 11, b
		var r fetchResponse
		must.True(t, x.parse(&r) != nil || len(r.records) <= len(b), "%d bytes of records in a response of %d", len(r.records), len(b))
	})
}

// TestAppendTime checks that the time of a record is the time set by the producer. If the batch is marked with append
// time, it is the time at which the broker appended the batch: the batch's greatest timestamp.
func TestAppendTime(t *testing.T) {
	const appended = 1 << 3 // bit 3 is the type of the timestamp in Kafka's protocol
	for attributes, want := range map[int16][]int64{0: {1000, 1001}, appended: {7777, 7777}, flagTransactional: {1000, 1001}} {
		b := makeBatch(t, kmsg.RecordBatch{FirstOffset: 5, Attributes: attributes, ProducerID: -1}, 1, testRecord{0, "", "a"}, testRecord{1, "", "b"})
		binary.BigEndian.PutUint64(b[35:], 7777)
		got, err := readResponse(t, 5, sealed(b), nil)
		must.Require(t, err == nil && len(got) == 2, "%v %v", got, err)
		for i, g := range got {
			must.Equal(t, g.time, want[i], "attributes", attributes, "the time of record", i)
		}
	}
}

package stream

// This file splits fetched batches into records and decodes them.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"blankout/internal/event"
	"blankout/stream/record"
)

// decoding converts fetched batches to Examples, and keeps its read position. It belongs to the caller of
// Consumer.Next.
type decoding struct {
	decoder record.Decoder
	most    int // largest number of examples in a Batch
	log     *slog.Logger

	current *fetched // nil if the next fetch must be taken
	index   int      // index of the batch of current that is being read
	reader  recordReader
	unpack  unpacker
	open    bool  // reader has started but not finished that batch
	last    int64 // offset of the last record returned from that batch
}

// read decodes records of cur into b until b is full or cur is used up, and returns the next offset. An error
// comes from the decoder; the next call then decodes the record at offset next again.
func (d *decoding) read(ctx context.Context, b *event.Batch, cur *fetched) (next int64, err error) {
	for ; d.index < len(cur.batches); d.index++ {
		batch := &cur.batches[d.index]
		if !d.open {
			records, err := d.unpack.unpack(batch.codec(), batch.Records)
			if err != nil {
				d.refuse(b, cur, batch, max(batch.FirstOffset, cur.first), err)
				continue
			}
			d.reader = recordReader{rest: records, left: batch.NumRecords}
			d.last, d.open = batch.FirstOffset-1, true
		}
		var raw rawRecord
		for {
			if len(b.Examples) == d.most {
				return b.Examples[len(b.Examples)-1].Offset + 1, nil
			}
			reader, last := d.reader, d.last
			ok, err := d.reader.next(&raw)
			if !ok && err == nil {
				break
			}
			offset := batch.FirstOffset + int64(raw.offsetDelta)
			if err == nil && (offset <= d.last || offset >= batch.next) {
				err = fmt.Errorf("record at offset %d in a batch [%d, %d) after offset %d", offset, batch.FirstOffset, batch.next, d.last)
			}
			if err != nil {
				d.refuse(b, cur, batch, max(d.last+1, cur.first), err)
				break
			}
			d.last = offset
			if offset < cur.first {
				continue
			}
			if offset >= cur.next { // beyond the requested end
				break
			}
			r := record.Record{Key: raw.key, Value: raw.value, Offset: offset, Time: batch.FirstTimestamp + raw.timeDelta, Unlabeled: cur.from.unlabeled, Headers: raw.headers}
			if batch.Attributes&flagLogAppendTime != 0 {
				r.Time = batch.MaxTimestamp
			}
			e, err := d.decode(ctx, b, r)
			if err != nil {
				d.reader, d.last = reader, last
				return offset, err
			}
			if r := cur.from.repeated; r != nil && len(e.Key) > 0 && e.Refused == nil {
				if before := r.of(e.Key, offset); before >= 0 {
					refuseRepeated(e, fmt.Sprintf("offset %d has the same key", before))
				}
			}
			if offset < cur.wanted { // the record is only needed to detect repeated records
				b.Examples = b.Examples[:len(b.Examples)-1]
			}
		}
		d.open = false
	}
	return cur.next, nil
}

// decode is record.DecodeOwned for a further example of b, without the calls for each record.
func (d *decoding) decode(ctx context.Context, b *event.Batch, r record.Record) (*event.Example, error) {
	e := b.Extend()
	key, value := e.Key[:0], e.Value[:0]
	if err := d.decoder.Decode(ctx, r, e); err != nil {
		b.Examples = b.Examples[:len(b.Examples)-1]
		return nil, err
	}
	e.Fingerprint = record.Fingerprint(r.Offset, r.Key, r.Value)
	if e.Key != nil {
		e.Key = append(key, e.Key...)
	}
	if e.Value != nil {
		e.Value = append(value, e.Value...)
	}
	if e.Refused != nil {
		e.Refused.Value = slices.Clone(e.Refused.Value)
	}
	return e, nil
}

// packedBatch begins the detail of a refused batch whose records cannot be separated.
const packedBatch = "record batch"

// refuse delivers a batch that cannot be split, or the part of a batch that is not delivered yet. The result is one
// refused example at offset, with the original bytes.
func (d *decoding) refuse(b *event.Batch, cur *fetched, batch *recordBatch, offset int64, cause error) {
	if offset = max(offset, cur.wanted); batch.next <= cur.wanted {
		return // the batch is only needed to detect repeated records
	}
	if offset >= batch.next || offset >= cur.next {
		d.log.Error("the end of a record batch cannot be read", "topic", cur.from.topic, "partition", cur.from.partition,
			"base", batch.FirstOffset, "next", batch.next, "err", cause)
		return
	}
	reason := event.ReasonDecompression
	if errors.Is(cause, errUnpacked) {
		reason = event.ReasonOversize
	}
	e := b.Extend()
	value := slices.Clone(batch.Records)
	*e = event.Example{Label: event.Unlabeled, Offset: offset, Time: batch.MaxTimestamp, Fingerprint: record.Fingerprint(offset, nil, value), Refused: &event.Refusal{
		Reason: reason,
		Detail: fmt.Sprintf(packedBatch+" [%d, %d) of %d records, codec %d, from offset %d on: %v", batch.FirstOffset, batch.next, batch.NumRecords, batch.codec(), offset, cause),
		Value:  value,
	}}
}

// close frees the decompressors.
func (d *decoding) close() {
	if d.unpack.zstd != nil {
		d.unpack.zstd.Close()
		d.unpack.zstd = nil
	}
	d.current = nil
}

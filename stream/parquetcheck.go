package stream

// This file checks the metadata of a Parquet file before the parquet package allocates memory for it. Otherwise the
// lengths in a damaged file could request unlimited memory.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

const (
	maxParquetPage   = 1 << 28 // largest size of a page's values in bytes
	maxParquetValues = 1 << 26 // largest number of values in a page
	maxParquetFooter = 1 << 28
	// maxParquetRoom limits the memory for the pages of a row group. The memory for a page counts only as far as it
	// exceeds usualRoom times the page's bytes in the file. One page of each column is in memory at a time.
	maxParquetRoom = 1 << 28
	usualRoom      = 64
	// parquetValueBytes is the memory for one value of a row. A single row may contain a whole page.
	parquetValueBytes = 24
)

// checkFooter checks the footer of a file.
func checkFooter(file io.ReaderAt, size int64) error {
	var end [8]byte
	if size < int64(2*len(parquetMagic)+4) {
		return io.ErrUnexpectedEOF
	}
	if _, err := file.ReadAt(end[:], size-8); err != nil {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(end[:]))
	if string(end[4:]) != string(parquetMagic) || n > size-12 || n > maxParquetFooter {
		return errors.New("it does not end as one does")
	}
	footer := make([]byte, n)
	if _, err := file.ReadAt(footer, size-8-n); err != nil {
		return err
	}
	return skipStruct(thriftCompact.NewReaderFromBytes(footer), 0)
}

// checkPages checks the page headers of a row group.
func checkPages(file io.ReaderAt, size int64, group *format.RowGroup, columns []*parquet.Column) error {
	if len(columns) != len(group.Columns) {
		return errLevels
	}
	room := int64(0)
	for i := range group.Columns {
		m := &group.Columns[i].MetaData
		if _, ok := openPage[m.Codec]; !ok {
			return fmt.Errorf("column %v is compressed by %v, which is not read: write the file with Zstandard, Snappy, GZIP or uncompressed", m.PathInSchema, m.Codec)
		}
		at, length := m.DataPageOffset, m.TotalCompressedSize
		if m.DictionaryPageOffset > 0 {
			at = m.DictionaryPageOffset
		}
		if at < 0 || length < 0 || at > size || length > size-at {
			return fmt.Errorf("column %v: %d bytes at %d are beyond the file", m.PathInSchema, length, at)
		}
		each := int64(4) // index of a value in the dictionary
		if columns[i].MaxRepetitionLevel() > 0 {
			each = parquetValueBytes
		}
		own, err := checkColumn(file, at, at+length, each, m.Codec)
		if err != nil {
			return fmt.Errorf("column %v: %w", m.PathInSchema, err)
		}
		if room += own; room > maxParquetRoom {
			return fmt.Errorf("column %v: its pages and those of the columns before it would take %d MB more than %d times their bytes, the most is %d: write smaller pages", m.PathInSchema, room>>20, usualRoom, maxParquetRoom>>20)
		}
	}
	return nil
}

// checkColumn checks the pages in the byte range from at to end. A value takes the given number of bytes (each). room
// is the memory of the largest page, beyond usualRoom times its bytes in the file.
func checkColumn(file io.ReaderAt, at, end, each int64, codec format.CompressionCodec) (room int64, err error) {
	var buffer []byte
	dictionary := int64(0)
	for at < end {
		var head pageHead
		for n := int64(256); ; n *= 8 { // longer headers are rare
			n = min(n, end-at)
			buffer = slices.Grow(buffer[:0], int(n))[:n]
			if _, err := file.ReadAt(buffer, at); err != nil {
				return 0, err
			}
			r := thriftCompact.NewReaderFromBytes(buffer)
			err := skipStruct(r, 0)
			if err == nil {
				head, err = readPageHead(buffer[:r.BytesRead()])
			}
			if err == nil {
				at += int64(r.BytesRead())
				break
			} else if n == end-at {
				return 0, fmt.Errorf("the page at byte %d: %w", at, err)
			}
		}
		if head.compressed < 0 || head.compressed > end-at || head.size < 0 || head.size > maxParquetPage || head.values < 0 || head.values > maxParquetValues {
			return 0, fmt.Errorf("the page at byte %d: %d bytes, %d uncompressed, of %d values", at, head.compressed, head.size, head.values)
		}
		if err := checkPage(file, at, head, codec); err != nil {
			return 0, fmt.Errorf("the page at byte %d: %w", at, err)
		}
		own := head.size + each*head.values - usualRoom*head.compressed
		if head.dictionary {
			dictionary = max(0, own)
		} else {
			room = max(room, own)
		}
		at += head.compressed
	}
	return room + dictionary, nil
}

// openPage has the decompressor of each codec; a nil decompressor means that checkPage needs none.
var openPage = map[format.CompressionCodec]func(io.Reader) (io.Reader, func(), error){
	format.Uncompressed: nil,
	format.Snappy:       nil, // the page begins with its length
	format.Gzip: func(r io.Reader) (io.Reader, func(), error) {
		z, err := gzip.NewReader(r)
		return z, func() {}, err
	},
	format.Zstd: func(r io.Reader) (io.Reader, func(), error) {
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(1<<25))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	},
}

var errPageSize = errors.New("it unpacks to more bytes than it says")

// checkPage decompresses a page, without storing it, to check that it is no longer than the length in its header. The
// parquet package allocates that length.
func checkPage(file io.ReaderAt, at int64, head pageHead, codec format.CompressionCodec) error {
	if head.levels < 0 || head.levels > min(head.compressed, head.size) {
		return errThrift
	}
	if !head.packed || head.compressed == head.levels {
		return nil
	}
	packed := io.NewSectionReader(file, at+head.levels, head.compressed-head.levels)
	size := head.size - head.levels
	if codec == format.Snappy {
		var first [binary.MaxVarintLen64]byte
		n, _ := packed.ReadAt(first[:], 0)
		if length, n := binary.Uvarint(first[:n]); n <= 0 || length > uint64(size) {
			return errPageSize
		}
	}
	open := openPage[codec]
	if open == nil {
		return nil
	}
	r, stop, err := open(packed)
	if err != nil {
		return err
	}
	defer stop()
	if n, err := io.Copy(io.Discard, io.LimitReader(r, size+1)); err != nil {
		return err
	} else if n > size {
		return errPageSize
	}
	return nil
}

// pageHead has the sizes in a page header.
type pageHead struct {
	dictionary               bool
	size, compressed, values int64
	levels                   int64 // number of uncompressed bytes at the start
	packed                   bool
}

func readPageHead(header []byte) (pageHead, error) {
	var h format.PageHeader
	if err := thrift.Unmarshal(&thriftCompact, header, &h); err != nil {
		return pageHead{}, err
	}
	v2 := &h.DataPageHeaderV2.V
	return pageHead{
		dictionary: h.Type == format.DictionaryPage, size: int64(h.UncompressedPageSize), compressed: int64(h.CompressedPageSize),
		values: int64(max(h.DataPageHeader.V.NumValues, h.DictionaryPageHeader.V.NumValues, v2.NumValues)),
		levels: int64(v2.DefinitionLevelsByteLength) + int64(v2.RepetitionLevelsByteLength), packed: v2.IsCompressed.V || !v2.IsCompressed.Valid,
	}, nil
}

var thriftCompact thrift.CompactProtocol

var errThrift = errors.New("a length in it is beyond its end")

const maxThriftDepth = 64

// skipStruct skips a struct without storing it.
func skipStruct(r thrift.Reader, depth int) error {
	if depth > maxThriftDepth {
		return errors.New("it is nested too deeply")
	}
	for {
		f, err := r.ReadField()
		switch {
		case err != nil:
			return errThrift
		case f.Type == thrift.STOP:
			return nil
		case f.Type == thrift.TRUE || f.Type == thrift.FALSE: // encoded in the type
			continue
		}
		if err := skipValue(r, f.Type, depth); err != nil {
			return err
		}
	}
}

func skipValue(r thrift.Reader, kind thrift.Type, depth int) (err error) {
	switch kind {
	case thrift.TRUE, thrift.FALSE, thrift.I8: // booleans in a list, bytes
		_, err = r.ReadInt8()
	case thrift.I16, thrift.I32, thrift.I64:
		_, err = r.ReadInt64()
	case thrift.DOUBLE:
		_, err = r.ReadFloat64()
	case thrift.BINARY:
		_, err = r.ReadBytes()
	case thrift.LIST, thrift.SET:
		list, err := r.ReadList()
		if err != nil {
			return errThrift
		}
		return skipEach(r, list.Size, depth, list.Type)
	case thrift.MAP:
		m, err := r.ReadMap()
		if err != nil {
			return errThrift
		}
		return skipEach(r, m.Size, depth, m.Key, m.Value)
	case thrift.STRUCT:
		return skipStruct(r, depth+1)
	default:
		return fmt.Errorf("unknown type %d", kind)
	}
	if err != nil {
		return errThrift
	}
	return nil
}

// skipEach skips n sequences of values, one value of each kind. Each value takes at least one byte.
func skipEach(r thrift.Reader, n int32, depth int, kinds ...thrift.Type) error {
	for range n {
		for _, kind := range kinds {
			if err := skipValue(r, kind, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

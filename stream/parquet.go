package stream

// This file reads Parquet files.

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// parquetMagic is what a Parquet file begins, and ends, with.
var parquetMagic = []byte("PAR1")

// ParquetError says that a Parquet file cannot be read.
type ParquetError struct {
	Row int64 // the first that cannot be, from 1; 0 for the whole file
	Err error
}

func (e *ParquetError) Error() string {
	if e.Row > 0 {
		return fmt.Sprintf("row %d: %v", e.Row, e.Err)
	}
	return fmt.Sprintf("it is no Parquet file, or is damaged: %v", e.Err)
}

func (e *ParquetError) Unwrap() error { return e.Err }

var errParquetStream = errors.New("one is read from its end: name the file itself, uncompressed (its columns are compressed already)")

// parquetLines writes the rows of a Parquet file as lines of JSON, so that whatever reads
// events reads these: the number of a line is that of its row. Nulls, and numbers that are
// none, are null, groups are objects, lists arrays and maps objects. A timestamp is in
// milliseconds since 1970, a date in days, a decimal its number. Bytes that are no text are
// written as hexadecimal digits where their length is fixed, and as they are where it is
// not.
type parquetLines struct {
	file   io.ReaderAt
	size   int64
	heads  []format.RowGroup // of groups
	groups []parquet.RowGroup
	schema []parquet.Field
	rows   parquet.Rows // of the group at hand, nil before and after
	read   [64]parquet.Row
	row    int64 // of the next one
	line   []byte
	rest   []byte // of line
}

// openParquet reads what the end of a file says of it.
func openParquet(file io.ReaderAt, size int64) (p *parquetLines, err error) {
	defer func() {
		if err != nil {
			err = &ParquetError{Err: err}
		}
	}()
	defer whole(&err)
	if err = checkFooter(file, size); err != nil {
		return nil, err
	}
	f, err := parquet.OpenFile(file, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	p = &parquetLines{file: file, size: size, heads: f.Metadata().RowGroups, groups: f.RowGroups(), schema: f.Root().Fields()}
	if len(p.heads) != len(p.groups) {
		return nil, errLevels
	}
	return p, nil
}

// whole makes an error of a panic of the package parquet, which trusts what a file says.
func whole(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("its bytes do not fit together: %v", r)
	}
}

// Read gives the next bytes of the lines.
func (p *parquetLines) Read(b []byte) (n int, err error) {
	for len(p.rest) == 0 {
		if err := p.fill(); errors.Is(err, io.EOF) {
			return 0, io.EOF
		} else if err != nil {
			return 0, &ParquetError{p.row + 1, err}
		}
	}
	n = copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// fill makes lines of the next rows.
func (p *parquetLines) fill() (err error) {
	defer whole(&err)
	if p.rows == nil {
		if len(p.groups) == 0 {
			return io.EOF
		}
		if err := checkPages(p.file, p.size, &p.heads[0]); err != nil {
			return err
		}
		p.rows, p.groups, p.heads = p.groups[0].Rows(), p.groups[1:], p.heads[1:]
	}
	n, err := p.rows.ReadRows(p.read[:])
	p.line = p.line[:0]
	for _, row := range p.read[:n] {
		var columns [][]parquet.Value
		row.Range(func(_ int, values []parquet.Value) bool {
			columns = append(columns, values)
			return true
		})
		if p.line, err = appendGroup(p.line, p.schema, columns, 0, 0); err != nil {
			return err
		}
		p.line = append(p.line, '\n')
		p.row++
	}
	p.rest = p.line
	if n > 0 {
		return nil // the error comes again
	}
	if errors.Is(err, io.EOF) {
		err = p.rows.Close()
		p.rows = nil
	} else if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

func (p *parquetLines) Close() error {
	if p.rows == nil {
		return nil
	}
	return p.rows.Close()
}

var errLevels = errors.New("its columns do not fit together")

// leaves returns how many columns a field has.
func leaves(f parquet.Field) (n int) {
	if f.Leaf() {
		return 1
	}
	for _, child := range f.Fields() {
		n += leaves(child)
	}
	return n
}

// appendGroup writes the fields of a group, whose columns' values are given, as an object.
// repetition and definition are the levels of the group (Melnik et al. 2010, Dremel).
func appendGroup(to []byte, fields []parquet.Field, columns [][]parquet.Value, repetition, definition int) (_ []byte, err error) {
	to = append(to, '{')
	for i, f := range fields {
		n := leaves(f)
		if n > len(columns) {
			return nil, errLevels
		}
		if i > 0 {
			to = append(to, ',')
		}
		to = append(appendText(to, f.Name()), ':')
		if to, err = appendField(to, f, columns[:n], repetition, definition); err != nil {
			return nil, err
		}
		columns = columns[n:]
	}
	return append(to, '}'), nil
}

func appendField(to []byte, f parquet.Field, columns [][]parquet.Value, repetition, definition int) ([]byte, error) {
	if len(columns) == 0 || len(columns[0]) == 0 { // a group without fields
		return append(to, "null"...), nil
	}
	if !f.Optional() && !f.Repeated() {
		return appendValue(to, f, columns, repetition, definition)
	}
	definition++
	absent := columns[0][0].DefinitionLevel() < definition
	switch {
	case absent && f.Optional():
		return append(to, "null"...), nil
	case f.Optional():
		return appendValue(to, f, columns, repetition, definition)
	case absent:
		return append(to, "[]"...), nil
	}
	to = append(to, '[')
	err := eachElement(columns, repetition+1, func(first bool, element [][]parquet.Value) (err error) {
		if !first {
			to = append(to, ',')
		}
		to, err = appendValue(to, f, element, repetition+1, definition)
		return err
	})
	return append(to, ']'), err
}

// eachElement cuts the columns of a repeated field into its elements: one begins where the
// repetition level is the field's.
func eachElement(columns [][]parquet.Value, repetition int, f func(first bool, element [][]parquet.Value) error) error {
	element := make([][]parquet.Value, len(columns))
	for first := true; len(columns[0]) > 0; first = false {
		for i, values := range columns {
			n := 1
			for n < len(values) && values[n].RepetitionLevel() > repetition {
				n++
			}
			if len(values) == 0 {
				return errLevels
			}
			element[i], columns[i] = values[:n], values[n:]
		}
		if err := f(first, element); err != nil {
			return err
		}
	}
	for _, values := range columns {
		if len(values) > 0 {
			return errLevels
		}
	}
	return nil
}

// appendValue writes a field that is there.
func appendValue(to []byte, f parquet.Field, columns [][]parquet.Value, repetition, definition int) ([]byte, error) {
	if f.Leaf() {
		return appendLeaf(to, f.Type(), columns[0][0]), nil
	}
	fields := f.Fields()
	var logical format.LogicalTypeValue
	if t := f.Type(); t != nil && t.LogicalType() != nil {
		logical = t.LogicalType().Value
	}
	if len(fields) == 1 && fields[0].Repeated() && !fields[0].Leaf() {
		inner := fields[0].Fields()
		switch logical.(type) {
		case *format.ListType:
			if len(inner) == 1 { // list.element
				return appendElements(to, fields[0], inner[0], columns, repetition, definition)
			}
		case *format.MapType:
			if len(inner) == 2 && inner[0].Leaf() { // key_value.key and .value
				return appendMap(to, inner, columns, repetition, definition)
			}
		}
	} else if _, list := logical.(*format.ListType); list && len(fields) == 1 && fields[0].Repeated() { // of two levels, as old writers have it
		return appendField(to, fields[0], columns, repetition, definition)
	}
	return appendGroup(to, fields, columns, repetition, definition)
}

func appendElements(to []byte, list, element parquet.Field, columns [][]parquet.Value, repetition, definition int) ([]byte, error) {
	if definition++; columns[0][0].DefinitionLevel() < definition {
		return append(to, "[]"...), nil
	}
	to = append(to, '[')
	err := eachElement(columns, repetition+1, func(first bool, one [][]parquet.Value) (err error) {
		if !first {
			to = append(to, ',')
		}
		to, err = appendField(to, element, one, repetition+1, definition)
		return err
	})
	return append(to, ']'), err
}

func appendMap(to []byte, pair []parquet.Field, columns [][]parquet.Value, repetition, definition int) ([]byte, error) {
	if definition++; columns[0][0].DefinitionLevel() < definition {
		return append(to, "{}"...), nil
	}
	to = append(to, '{')
	err := eachElement(columns, repetition+1, func(first bool, one [][]parquet.Value) (err error) {
		if !first {
			to = append(to, ',')
		}
		key := appendLeaf(nil, pair[0].Type(), one[0][0])
		if key[0] != '"' {
			key = appendText(nil, string(key))
		}
		to = append(append(to, key...), ':')
		to, err = appendField(to, pair[1], one[1:], repetition+1, definition)
		return err
	})
	return append(to, '}'), err
}

// appendLeaf writes one value.
func appendLeaf(to []byte, t parquet.Type, v parquet.Value) []byte {
	if v.IsNull() {
		return append(to, "null"...)
	}
	var logical format.LogicalTypeValue
	if l := t.LogicalType(); l != nil {
		logical = l.Value
	}
	switch l := logical.(type) {
	case *format.DecimalType:
		return appendDecimal(to, v, int(l.Scale))
	case *format.TimestampType:
		perMilli := int64(1)
		switch l.Unit.Value.(type) {
		case *format.MicroSeconds:
			perMilli = 1000
		case *format.NanoSeconds:
			perMilli = 1e6
		}
		return strconv.AppendInt(to, floor(v.Int64(), perMilli), 10)
	case *format.UUIDType:
		if b := v.ByteArray(); len(b) == 16 {
			return fmt.Appendf(to, `"%x-%x-%x-%x-%x"`, b[:4], b[4:6], b[6:8], b[8:10], b[10:])
		}
	case *format.IntType:
		if !l.IsSigned && v.Kind() == parquet.Int32 {
			return strconv.AppendUint(to, uint64(v.Uint32()), 10)
		}
		if !l.IsSigned {
			return strconv.AppendUint(to, v.Uint64(), 10)
		}
	}
	switch v.Kind() {
	case parquet.Boolean:
		return strconv.AppendBool(to, v.Boolean())
	case parquet.Int32:
		return strconv.AppendInt(to, int64(v.Int32()), 10)
	case parquet.Int64:
		return strconv.AppendInt(to, v.Int64(), 10)
	case parquet.Int96:
		return strconv.AppendInt(to, int96Milliseconds(v.Int96()), 10)
	case parquet.Float:
		return appendFloat(to, float64(v.Float()), 32)
	case parquet.Double:
		return appendFloat(to, v.Double(), 64)
	case parquet.FixedLenByteArray:
		return append(hex.AppendEncode(append(to, '"'), v.ByteArray()), '"')
	default:
		return appendText(to, string(v.ByteArray()))
	}
}

// appendFloat writes a number. NaN becomes null, which is missing; an infinity becomes a
// number so large that readers refuse it, and say so.
func appendFloat(to []byte, x float64, bits int) []byte {
	switch {
	case math.IsNaN(x):
		return append(to, "null"...)
	case math.IsInf(x, 1):
		return append(to, "1e999"...)
	case math.IsInf(x, -1):
		return append(to, "-1e999"...)
	}
	return strconv.AppendFloat(to, x, 'g', -1, bits)
}

// appendText writes a string of JSON.
func appendText(to []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(strings.ToValidUTF8(s, "\ufffd")) // strings can be encoded
	return append(to, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// appendDecimal writes an integer, big-endian where it is bytes, as it is with a scale.
func appendDecimal(to []byte, v parquet.Value, scale int) []byte {
	var x big.Int
	switch v.Kind() {
	case parquet.Int32:
		x.SetInt64(int64(v.Int32()))
	case parquet.Int64:
		x.SetInt64(v.Int64())
	default:
		b := v.ByteArray()
		x.SetBytes(b)
		if len(b) > 0 && b[0] >= 0x80 {
			x.Sub(&x, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
	}
	return fmt.Appendf(x.Append(to, 10), "e%d", -scale)
}

// int96Milliseconds is of the timestamps of old writers: nanoseconds of the day, and the
// Julian day.
func int96Milliseconds(t deprecated.Int96) int64 {
	var b [12]byte
	for i, word := range t {
		binary.LittleEndian.PutUint32(b[4*i:], word)
	}
	const epoch, day = 2440588, 24 * 60 * 60 * 1000
	return (int64(t[2])-epoch)*day + floor(int64(binary.LittleEndian.Uint64(b[:8])), 1e6)
}

// floor is the quotient of x and y > 0, rounded down.
func floor(x, y int64) int64 {
	q := x / y
	if x%y < 0 {
		q--
	}
	return q
}

package stream

// This file reads Parquet files.

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// parquetMagic marks the start and the end of a Parquet file.
var parquetMagic = []byte("PAR1")

// ParquetError reports that a Parquet file cannot be read.
type ParquetError struct {
	Row int64 // number of the first invalid row, from 1; 0 for the whole file
	Err error
}

func (e *ParquetError) Error() string {
	if e.Row > 0 {
		return fmt.Sprintf("row %d: %v", e.Row, e.Err)
	}
	return fmt.Sprintf("it is not a Parquet file, or is damaged: %v", e.Err)
}

func (e *ParquetError) Unwrap() error { return e.Err }

var errParquetStream = errors.New("one is read from its end: name the file itself, uncompressed (its columns are compressed already)")

// parquetLines converts the rows of a Parquet file to lines of JSON, for all readers of events. The line number is the
// row number. Groups and maps become objects, and lists become arrays. A timestamp or a date becomes text as in RFC 3339,
// and a decimal becomes its number. NaN and infinities become words that the format JSON knows. Binary values become
// hexadecimal digits if their length is fixed or they are not UTF-8. A string that is not UTF-8 does not change, so that
// its record is refused.
type parquetLines struct {
	file   io.ReaderAt
	size   int64
	heads  []format.RowGroup // metadata of the row groups
	groups []parquet.RowGroup
	schema []parquet.Field
	leaves []*parquet.Column
	half   map[int]bool // leaves of half-precision floats, which the parquet package does not know
	rows   parquet.Rows // rows of the current group; nil before and after
	read   [64]parquet.Row
	ready  []parquet.Row // rows that are read but not converted
	row    int64         // number of the next row
	line   []byte
	rest   []byte // unread part of line
	most   int    // largest line in bytes; longer lines are cut
	end    int    // offset in line at which the current line is cut
}

// openParquet reads the footer of a file. most is the largest length of a row's line; a longer line is cut to most+1
// bytes.
func openParquet(file io.ReaderAt, size int64, most int) (p *parquetLines, err error) {
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
	p = &parquetLines{file: file, size: size, heads: f.Metadata().RowGroups, groups: f.RowGroups(), schema: f.Root().Fields(), leaves: columnLeaves(nil, f.Root()), half: halves(f.Metadata().Schema), most: most}
	if len(p.heads) != len(p.groups) {
		return nil, errLevels
	}
	return p, nil
}

// whole converts a panic to an error, because the parquet package trusts the file.
func whole(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("its bytes do not fit together: %v", r)
	}
}

// Read returns the next bytes of the lines.
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

// columnLeaves appends the columns at or below c that have values, in file order.
func columnLeaves(to []*parquet.Column, c *parquet.Column) []*parquet.Column {
	if c.Leaf() {
		return append(to, c)
	}
	for _, child := range c.Columns() {
		to = columnLeaves(to, child)
	}
	return to
}

// halves returns the numbers of the leaves that are half-precision floats.
func halves(elements []format.SchemaElement) map[int]bool {
	half, leaf := map[int]bool{}, 0
	for _, e := range elements {
		if !e.Type.Valid { // a group
			continue
		}
		if e.LogicalType.Value != nil {
			_, half[leaf] = e.LogicalType.Value.(*format.Float16Type)
		}
		leaf++
	}
	return half
}

// fill converts the next rows. Many rows may share one long value, so it converts few rows if lines are long.
func (p *parquetLines) fill() (err error) {
	defer whole(&err)
	if len(p.ready) > 0 {
		return p.write()
	}
	if p.rows == nil {
		for len(p.groups) > 0 && p.groups[0].NumRows() == 0 {
			p.groups, p.heads = p.groups[1:], p.heads[1:]
		}
		if len(p.groups) == 0 {
			return io.EOF
		}
		if err := checkPages(p.file, p.size, &p.heads[0], p.leaves); err != nil {
			return err
		}
		p.rows, p.groups, p.heads = p.groups[0].Rows(), p.groups[1:], p.heads[1:]
	}
	n, err := p.rows.ReadRows(p.read[:])
	if p.ready = p.read[:n]; n > 0 {
		return p.write() // if there was an error, the next call gets it again
	}
	if errors.Is(err, io.EOF) {
		err = p.rows.Close()
		p.rows = nil
	} else if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// write converts some of the ready rows, at least one.
func (p *parquetLines) write() error {
	p.line = p.line[:0]
	for len(p.ready) > 0 && len(p.line) < 1<<16 {
		var columns [][]parquet.Value
		p.ready[0].Range(func(_ int, values []parquet.Value) bool {
			columns = append(columns, values)
			return true
		})
		p.ready = p.ready[1:]
		p.end = len(p.line) + p.most
		line, err := p.appendGroup(p.line, p.schema, columns, 0, 0)
		if errors.Is(err, errLongLine) {
			line = append(p.line, make([]byte, p.most+1)...)
		} else if err != nil {
			return err
		}
		p.line = append(line, '\n')
		p.row++
	}
	p.rest = p.line
	return nil
}

func (p *parquetLines) Close() error {
	if p.rows == nil {
		return nil
	}
	return p.rows.Close()
}

var (
	errLevels   = errors.New("its columns do not fit together")
	errLongLine = errors.New("the row is longer than max_bytes")
)

// leaves returns the number of columns of a field.
func leaves(f parquet.Field) (n int) {
	if f.Leaf() {
		return 1
	}
	for _, child := range f.Fields() {
		n += leaves(child)
	}
	return n
}

// appendGroup writes the fields of a group as an object, given the values of their columns. repetition and definition
// are the levels of the group (Melnik et al. 2010, Dremel).
func (p *parquetLines) appendGroup(to []byte, fields []parquet.Field, columns [][]parquet.Value, repetition, definition int) (_ []byte, err error) {
	to = append(to, '{')
	for i, f := range fields {
		n := leaves(f)
		if n > len(columns) {
			return nil, errLevels
		}
		if len(to)+len(f.Name()) > p.end {
			return nil, errLongLine
		}
		if i > 0 {
			to = append(to, ',')
		}
		to = append(appendText(to, f.Name()), ':')
		if to, err = p.appendField(to, f, columns[:n], repetition, definition); err != nil {
			return nil, err
		}
		columns = columns[n:]
	}
	return append(to, '}'), nil
}

func (p *parquetLines) appendField(to []byte, f parquet.Field, columns [][]parquet.Value, repetition, definition int) ([]byte, error) {
	if len(columns) == 0 || len(columns[0]) == 0 { // the group has no fields
		return append(to, "null"...), nil
	}
	if !f.Optional() && !f.Repeated() {
		return p.appendValue(to, f, columns, repetition, definition)
	}
	if definition++; f.Optional() {
		if columns[0][0].DefinitionLevel() < definition {
			return append(to, "null"...), nil
		}
		return p.appendValue(to, f, columns, repetition, definition)
	}
	return appendElements(to, "[]", columns, repetition+1, definition, func(to []byte, element [][]parquet.Value) ([]byte, error) {
		return p.appendValue(to, f, element, repetition+1, definition)
	})
}

// appendElements writes the elements of a repeated field in brackets, given the levels of the field. An element begins
// where the repetition level equals the level of the field. The function one writes an element.
func appendElements(to []byte, brackets string, columns [][]parquet.Value, repetition, definition int, one func(to []byte, element [][]parquet.Value) ([]byte, error)) (_ []byte, err error) {
	if columns[0][0].DefinitionLevel() < definition {
		return append(to, brackets...), nil
	}
	to = append(to, brackets[0])
	element := make([][]parquet.Value, len(columns))
	for first := true; len(columns[0]) > 0; first = false {
		for i, values := range columns {
			n := 1
			for n < len(values) && values[n].RepetitionLevel() > repetition {
				n++
			}
			if len(values) == 0 {
				return nil, errLevels
			}
			element[i], columns[i] = values[:n], values[n:]
		}
		if !first {
			to = append(to, ',')
		}
		if to, err = one(to, element); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(columns, func(values []parquet.Value) bool { return len(values) > 0 }) {
		return nil, errLevels
	}
	return append(to, brackets[1]), nil
}

// appendValue writes a field that is present.
func (p *parquetLines) appendValue(to []byte, f parquet.Field, columns [][]parquet.Value, repetition, definition int) ([]byte, error) {
	if f.Leaf() {
		return p.appendLeaf(to, f.Type(), columns[0][0])
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
			if len(inner) == 1 { // the structure list.element
				return appendElements(to, "[]", columns, repetition+1, definition+1, func(to []byte, element [][]parquet.Value) ([]byte, error) {
					return p.appendField(to, inner[0], element, repetition+1, definition+1)
				})
			}
		case *format.MapType:
			if len(inner) == 2 && inner[0].Leaf() { // the structure key_value.key and .value
				return appendElements(to, "{}", columns, repetition+1, definition+1, func(to []byte, pair [][]parquet.Value) ([]byte, error) {
					return p.appendPair(to, inner, pair, repetition+1, definition+1)
				})
			}
		}
	} else if _, list := logical.(*format.ListType); list && len(fields) == 1 && fields[0].Repeated() { // two levels only, from old writers
		return p.appendField(to, fields[0], columns, repetition, definition)
	}
	return p.appendGroup(to, fields, columns, repetition, definition)
}

// appendPair writes a pair of a map.
func (p *parquetLines) appendPair(to []byte, pair []parquet.Field, columns [][]parquet.Value, repetition, definition int) ([]byte, error) {
	key, err := p.appendLeaf(nil, pair[0].Type(), columns[0][0])
	if err != nil {
		return nil, err
	}
	if key[0] != '"' {
		key = appendText(nil, string(key))
	}
	to = append(append(to, key...), ':')
	return p.appendField(to, pair[1], columns[1:], repetition, definition)
}

// appendLeaf writes one value.
func (p *parquetLines) appendLeaf(to []byte, t parquet.Type, v parquet.Value) ([]byte, error) {
	if k := v.Kind(); k == parquet.ByteArray || k == parquet.FixedLenByteArray {
		if len(to)+len(v.ByteArray()) > p.end {
			return nil, errLongLine
		}
		if b := v.ByteArray(); p.half[v.Column()] && len(b) == 2 {
			return appendFloat(to, float16(binary.LittleEndian.Uint16(b)), 32), nil
		}
	}
	return appendScalar(to, t, v), nil
}

func appendScalar(to []byte, t parquet.Type, v parquet.Value) []byte {
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
		ms := v.Int64()
		switch l.Unit.Value.(type) {
		case *format.MicroSeconds:
			ms = time.UnixMicro(ms).UnixMilli()
		case *format.NanoSeconds:
			ms = time.Unix(0, ms).UnixMilli()
		}
		return appendTime(to, ms, l.IsAdjustedToUTC)
	case *format.DateType:
		return appendTime(to, int64(v.Int32())*24*60*60*1000, false)
	case *format.StringType, *format.EnumType, *format.JsonType:
		return appendText(to, v.ByteArray())
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
		return appendTime(to, int96Milliseconds(v.Int96()), true)
	case parquet.Float:
		return appendFloat(to, float64(v.Float()), 32)
	case parquet.Double:
		return appendFloat(to, v.Double(), 64)
	}
	b := v.ByteArray()
	if v.Kind() == parquet.ByteArray && utf8.Valid(b) {
		return appendText(to, b)
	}
	return append(hex.AppendEncode(append(to, '"'), b), '"')
}

// appendTime writes milliseconds since 1970 as a date, with the zone Z if utc is set.
func appendTime(to []byte, ms int64, utc bool) []byte {
	at := time.UnixMilli(ms).UTC()
	layout := "2006-01-02T15:04:05.999"
	switch {
	case at.Year() < 1 || at.Year() > 9999:
		return strconv.AppendInt(to, ms, 10)
	case utc:
		layout += "Z"
	}
	return append(at.AppendFormat(append(to, '"'), layout), '"')
}

// appendFloat writes a number, NaN or an infinity.
func appendFloat(to []byte, x float64, bits int) []byte {
	switch {
	case math.IsNaN(x):
		return append(to, "NaN"...)
	case math.IsInf(x, 1):
		return append(to, "Infinity"...)
	case math.IsInf(x, -1):
		return append(to, "-Infinity"...)
	}
	return strconv.AppendFloat(to, x, 'g', -1, bits)
}

// float16 returns the number of a half-precision float of IEEE 754.
func float16(bits uint16) float64 {
	sign, exponent, fraction := 1-2*float64(bits>>15), int(bits>>10&31), float64(bits&1023)
	switch {
	case exponent == 31 && fraction > 0:
		return math.NaN()
	case exponent == 31:
		return sign * math.Inf(1)
	case exponent == 0:
		return sign * math.Ldexp(fraction, -24)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// appendText writes a string as encoding/json does, without copying it, but does not change invalid UTF-8.
func appendText[T string | []byte](to []byte, s T) []byte {
	to = append(to, '"')
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if at := strings.IndexByte(escaped, c); at >= 0 {
				to = append(to, '\\', escapes[at])
			} else if c < ' ' {
				to = fmt.Appendf(to, `\u%04x`, c)
			} else {
				to = append(to, c)
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
		if r == '\u2028' || r == '\u2029' { // JavaScript treats these as line ends
			to = fmt.Appendf(to, `\u%04x`, r)
		} else {
			to = append(to, s[i:i+n]...)
		}
		i += n
	}
	return append(to, '"')
}

const (
	escaped = "\"\\\b\f\n\r\t"
	escapes = "\"\\bfnrt"
)

// appendDecimal writes an integer with a decimal scale. If the value consists of bytes, they are big-endian.
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

// int96Milliseconds converts a timestamp of old writers: nanoseconds of the day and the Julian day.
func int96Milliseconds(t deprecated.Int96) int64 {
	const epoch, day = 2440588, 24 * 60 * 60 * 1000
	return (int64(t[2])-epoch)*day + time.Unix(0, int64(t[1])<<32|int64(t[0])).UnixMilli()
}

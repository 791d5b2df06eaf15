package record

// This file implements the format JSON.

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/stream/record/notation"

	"github.com/cespare/xxhash/v2"
)

// jsonDecoder decodes events that are JSON objects (RFC 8259). It keeps the names that it has decoded as a tree of
// nodes. After each key of an object it expects the key that followed in the previous event, in the same spelling. So
// events of the same shape only need one comparison for each key, instead of scanning, unescaping and a lookup. It also
// caches the columns of short repeated values (short.go).
type jsonDecoder struct {
	core
	root  *node
	nodes int    // number of nodes in the tree, at most max_fields; later names get a temporary node
	made  uint64 // number of nodes created so far
	event uint64 // number of this event, to detect duplicate keys
	left  int    // remaining number of values of this event, including empty ones

	// grown undoes the additions of this event to the tree, and relinked has its other changes. A refusal undoes both.
	grown    []func()
	relinked []relink

	data    []byte
	scratch []byte           // the latest string with escapes
	escaped bool             // the latest string is in scratch
	once    map[onceKey]bool // keys of this event that are not in the tree
	// spare has temporary nodes, one for each depth. A temporary node is valid until the next value of its object or
	// array. Otherwise a long record would create one node for each of its values.
	spare [maxDepth + 1]*node
	index []byte // last part of an element's name

	reason    event.Reason
	failure   string
	failureAt int
}

// node is a name at one position of an event, joined with dots: a key of the enclosing object, or an index of the
// array.
type node struct {
	named
	lead     lead // latest text from the key's opening quote to its value
	children map[string]*node
	elements []*node // child nodes for elements of an array
	first    *node   // the child that was first last time
	next     *node   // the sibling that was next last time
	event    uint64  // latest event with this key
	plain    bool    // whether the node is linked into the tree
	number   uint64
	size     int            // size of the whole name in bytes
	long     *xxhash.Digest // hash of the whole name; nil unless the name is longer than the stored part
}

// onceKey is a key with the number of its parent node. It does not point to the node, so that a temporary node can be
// freed.
type onceKey struct {
	parent uint64
	key    string
}

// relink records a changed link between nodes: *slot pointed to the node was before.
type relink struct {
	slot **node
	was  *node
}

// valuesPerFeature is the number of values that a record may have for each allowed feature. Empty lists, empty objects,
// and null or dropped values take time but give no features.
const valuesPerFeature = 4

// maxDepth is the deepest nesting of objects and arrays.
const maxDepth = 64

func newJSON(c core) (Decoder, error) { return newJSONDecoder(c), nil }

func newJSONDecoder(c core) *jsonDecoder { return &jsonDecoder{core: c, root: &node{plain: true}} }

func (d *jsonDecoder) Decode(_ context.Context, r Record, e *event.Example) error {
	if !d.begin(&r, e, false) {
		return nil
	}
	d.event++
	d.data, d.left = r.Value, valuesPerFeature*d.c.MaxFeatures
	if list := wrapped(r.Value, d.c.Label); list != "" {
		d.refuse(&r, e, event.ReasonSyntax, "its events are in a list named %q: send the list alone, or each event on a line, as jq -c '.%s[]' FILE writes them", list, list)
	} else if d.document() < 0 {
		d.refuse(&r, e, d.reason, "byte %d: %s", d.failureAt+1, d.failure)
	} else {
		d.complete(&r, e)
	}
	if e.Refused != nil {
		d.unlearn()
	}
	clear(d.grown)
	clear(d.relinked)
	d.grown, d.relinked = d.grown[:0], d.relinked[:0]
	if len(d.once) > 64 {
		d.once = nil // clearing a map takes time for its largest size
	} else {
		clear(d.once)
	}
	return nil
}

// wrappers are names under which other services expect a list of events, with a value that says whether other keys may
// stand beside the list. Other names of the kind may be a field of an event, so they wrap events only if they are alone.
var wrappers = map[string]bool{
	"instances": true, "dataframe_records": true,
	"inputs": false, "data": false, "events": false, "records": false, "rows": false, "examples": false,
}

// wrapped returns the path of the list if a record is no event but an object around a list of events, otherwise "". An
// object with the field label is an event.
func wrapped(value []byte, label string) string {
	list := bytes.IndexByte(value, '[')
	if list < 0 {
		return ""
	}
	if bytes.Contains(value[:list], []byte(`"dataframe_split":`)) {
		return "dataframe_split.data"
	}
	name := lastName(value[:list])
	company, is := wrappers[string(name)]
	if inner := bytes.TrimLeft(value[list+1:], " \t\r\n"); !is || len(inner) == 0 || inner[0] != '{' && inner[0] != '[' {
		return ""
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(value, &keys) != nil || keys[string(name)] == nil || keys[label] != nil || !company && len(keys) > 1 {
		return ""
	}
	return string(name)
}

// lastName returns the name at the end of a JSON text that ends before a value.
func lastName(text []byte) []byte {
	text = bytes.TrimRight(text, " \t\r\n:")
	text, _ = bytes.CutSuffix(text, []byte{'"'})
	return text[bytes.LastIndexByte(text, '"')+1:]
}

// unlearn removes the names that this event has added to the tree, so that later names can be added.
func (d *jsonDecoder) unlearn() {
	for _, l := range slices.Backward(d.relinked) {
		*l.slot = l.was
	}
	for _, undo := range slices.Backward(d.grown) {
		undo()
	}
	d.nodes -= len(d.grown)
}

// fail stores the reason why the record is refused, and returns -1. All scanning functions return the position after
// the scanned text, or -1.
func (d *jsonDecoder) fail(p int, reason event.Reason, format string, args ...any) int {
	d.failureAt, d.reason, d.failure = min(p, len(d.data)), reason, fmt.Sprintf(format, args...)
	return -1
}

// unexpected calls fail for the text at p.
func (d *jsonDecoder) unexpected(p int, want string) int {
	if p >= len(d.data) {
		return d.fail(p, event.ReasonSyntax, "the record ends where %s should be", want)
	}
	r, _ := utf8.DecodeRune(d.data[p:])
	return d.fail(p, event.ReasonSyntax, "%q where %s should be", r, want)
}

func (d *jsonDecoder) space(p int) int {
	for p < len(d.data) {
		if c := d.data[p]; c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			break
		}
		p++
	}
	return p
}

func (d *jsonDecoder) document() int {
	p := d.space(0)
	if p >= len(d.data) || d.data[p] != '{' {
		return d.unexpected(p, "an object")
	}
	p = d.object(p+1, d.root, 1)
	if p < 0 {
		return p
	}
	if p = d.space(p); p < len(d.data) {
		return d.unexpected(p, "the end of the record")
	}
	return p
}

// object reads the rest of an object with the node n.
func (d *jsonDecoder) object(p int, n *node, depth int) int {
	if depth > maxDepth {
		return d.fail(p-1, event.ReasonSyntax, "nested deeper than %d", maxDepth)
	}
	data := d.data
	if p = d.space(p); p < len(data) && data[p] == '}' {
		return p + 1
	}
	expected := n.first
	link := &n.first // link to the node that the next key should have
	for {
		c, start := expected, p
		if c != nil && !c.leads(data, p) {
			// The expected key may be absent, so try the key after it.
			if c = c.next; c != nil && !c.leads(data, p) {
				c = nil
			}
		}
		if c != nil {
			p += int(c.lead.size)
		} else if c, start, p = d.key(p, n, depth); p < 0 {
			return p
		}
		if c.plain {
			if c != expected {
				d.relinked = append(d.relinked, relink{link, *link})
				*link = c
			}
			if c.event == d.event {
				return d.fail(start+1, event.ReasonDuplicate, "field %.80q twice", c.name)
			}
			c.event = d.event
			link = &c.next
			expected = c.next
		}
		if p = d.member(p, c, depth); p < 0 {
			return p
		}
		if p >= len(data) || data[p] != ',' {
			if p = d.space(p); p < len(data) && data[p] == '}' {
				return p + 1
			}
			if p >= len(data) || data[p] != ',' {
				return d.unexpected(p, "a comma or the object's end")
			}
		}
		if d.tooMany() {
			return d.fail(p, event.ReasonTooMany, moreFeatures, d.c.MaxFeatures)
		}
		if p++; p < len(data) && data[p] == ' ' {
			p++ // skip one blank; further blanks are part of the lead
		}
	}
}

// key reads a key of n after its opening quote, up to its value, and stores its lead. A negative next means failure.
func (d *jsonDecoder) key(p int, n *node, depth int) (c *node, quote, next int) {
	data := d.data
	quote = d.space(p)
	if quote >= len(data) || data[quote] != '"' {
		return nil, quote, d.unexpected(quote, "a field's name")
	}
	key, p := d.str(quote + 1)
	if p < 0 {
		return nil, quote, p
	}
	if c = n.children[string(key)]; c == nil {
		if c = d.child(n, key, quote+1, depth); c == nil || !c.plain && !d.first(n, c, string(key), quote+1) {
			return nil, quote, -1
		}
	}
	if p = d.space(p); p >= len(data) || data[p] != ':' {
		return nil, quote, d.unexpected(p, "a colon")
	}
	if p = d.space(p + 1); c.plain {
		c.lead.set(data[quote:p])
	}
	return c, quote, p
}

// lead is the text from a key's opening quote to its value.
type lead struct {
	size       uint8  // 0 if the lead is unknown or too long
	word, mask uint64 // the first eight bytes, masked
	tail       uint64 // the last eight bytes, if there are more than eight
	text       [maxLead]byte
}

const maxLead = 47

func (l *lead) set(text []byte) {
	if len(text) > maxLead {
		l.size = 0
		return
	}
	l.size, l.text = uint8(len(text)), [maxLead]byte{}
	copy(l.text[:], text)
	l.word, l.mask = binary.LittleEndian.Uint64(l.text[:]), ^uint64(0)>>(64-8*min(len(text), 8))
	if n := len(text); n > 8 {
		l.tail = binary.LittleEndian.Uint64(l.text[n-8:])
	}
}

// leads reports whether data[p:] begins with the lead of c, and the next byte is not blank.
func (c *node) leads(data []byte, p int) bool {
	l := &c.lead
	size := int(l.size)
	if len(data)-p <= max(size, 8) || (binary.LittleEndian.Uint64(data[p:])^l.word)&l.mask != 0 || data[p+size] <= ' ' {
		return false
	}
	if size <= 8 {
		return size > 0
	}
	return binary.LittleEndian.Uint64(data[p+size-8:]) == l.tail && (size <= 16 || string(data[p:p+size]) == string(l.text[:size]))
}

// array reads the rest of an array. Strings are words of n; any other element is the field name[i].
func (d *jsonDecoder) array(p int, n *node, depth int) int {
	if depth > maxDepth {
		return d.fail(p-1, event.ReasonSyntax, "nested deeper than %d", maxDepth)
	}
	data := d.data
	p = d.space(p)
	if p < len(data) && data[p] == ']' {
		return p + 1
	}
	for i := 0; ; i++ {
		if p < len(data) && data[p] == '"' {
			var word []byte
			if word, p = d.str(p + 1); p < 0 {
				return p
			}
			if !d.addString(&n.named, word, true) {
				return d.fail(p, event.ReasonTooMany, moreFeatures, d.c.MaxFeatures)
			}
		} else {
			var c *node
			if i < len(n.elements) {
				c = n.elements[i]
			} else if c = d.element(n, i, p, depth); c == nil {
				return -1
			}
			if p = d.member(p, c, depth); p < 0 {
				return p
			}
		}
		p = d.space(p)
		if p < len(data) && data[p] == ',' {
			if d.tooMany() {
				return d.fail(p, event.ReasonTooMany, moreFeatures, d.c.MaxFeatures)
			}
			p = d.space(p + 1)
			continue
		}
		if p < len(data) && data[p] == ']' {
			return p + 1
		}
		return d.unexpected(p, "a comma or the array's end")
	}
}

// member reads the value of the node n.
func (d *jsonDecoder) member(p int, n *node, depth int) int {
	if d.left--; d.left < 0 {
		return d.fail(p, event.ReasonTooMany, "more values than %d times max_features, %d", valuesPerFeature, d.c.MaxFeatures)
	}
	if n.role != isFeature {
		return d.special(p, n, depth)
	}
	data := d.data
	if p >= len(data) {
		return d.unexpected(p, "a value")
	}
	if n.times != nil && (data[p] == '"' || data[p]-'0' <= 9 || data[p] == '-') {
		return d.timeValue(p, n)
	}
	switch c := data[p]; {
	case c == '"':
		if !n.text && d.written == notation.Plain && !d.isRead(&n.named) && (n.strange < 8 || d.event%32 == 0) {
			if t, ok := shortString(data, p+1); ok {
				end := p + 1 + t.size()
				d.shortPair(&n.named, t, data[p+1:end])
				return end + 1
			}
			n.strange = min(n.strange+1, 16)
		}
		text, next := d.str(p + 1)
		if next < 0 {
			return next
		}
		switch {
		case d.writtenNumber(&n.named, text):
		case !d.addString(&n.named, text, false):
			return d.fail(p, event.ReasonTooMany, moreFeatures, d.c.MaxFeatures)
		}
		return next
	case c-'0' <= 9 || c == '-':
		x, next := number(data, p, true)
		if next < 0 {
			return d.notNumber(p, &n.named)
		}
		if n.categorical {
			d.pair(&n.named, event.Categorical, plainNumber(data[p:next]), 1)
			return next
		}
		if x > maxMagnitude || x < -maxMagnitude {
			return d.fail(p, event.ReasonOutOfRange, "field %.80q is %.40s, the limit is 1e30", n.name, data[p:next])
		}
		d.addNumber(&n.named, x)
		return next
	case c == '{':
		return d.object(p+1, n, depth+1)
	case c == '[':
		return d.array(p+1, n, depth+1)
	}
	next := d.literal(p, &n.named)
	if next < 0 {
		return next
	}
	switch data[p] {
	case 'n':
		d.miss(&n.named)
		return next
	case 't', 'f':
	default: // NaN or an infinity
		return next
	}
	d.pair(&n.named, event.Boolean, data[p:next], 1)
	return next
}

// timeValue reads a string or a number of n, which is a field with time features.
func (d *jsonDecoder) timeValue(p int, n *node) int {
	text, next := d.scalar(p, &n.named)
	if text != nil && !d.takeTime(&n.named, text) {
		return d.fail(p, event.ReasonSyntax, "field %.80q, %.40q: %s", n.name, text, wantTime)
	}
	return next
}

// scalar reads a value of n that is no object and no array. text is nil for null, for a number that counts as null and
// after a failure. n is nil for a dropped value.
func (d *jsonDecoder) scalar(p int, n *named) (text []byte, next int) {
	if p >= len(d.data) {
		return nil, d.unexpected(p, "a value")
	}
	switch c := d.data[p]; {
	case c == '"':
		return d.str(p + 1)
	case c-'0' <= 9 || c == '-':
		if _, next = number(d.data, p, true); next < 0 {
			return nil, d.notNumber(p, n)
		}
	default:
		if next = d.literal(p, n); next < 0 || c != 't' && c != 'f' {
			return nil, next
		}
	}
	return d.data[p:next], next
}

// literal reads true, false or null of n. It also reads a NaN or an infinity that notNumber treats as null.
func (d *jsonDecoder) literal(p int, n *named) int {
	data := d.data
	switch {
	case len(data)-p >= 4 && (string(data[p:p+4]) == "true" || string(data[p:p+4]) == "null"):
		return p + 4
	case len(data)-p >= 5 && string(data[p:p+5]) == "false":
		return p + 5
	}
	return d.notNumber(p, n)
}

// notNumber handles text that is not a JSON value. Python's json module writes NaN and the infinities as words. These
// words count as null or are refused with a separate reason. n is nil for a dropped value.
func (d *jsonDecoder) notNumber(p int, n *named) int {
	end := p
	for end < len(d.data) && (d.data[end]|0x20-'a' < 26 || d.data[end] == '-') {
		end++
	}
	if notFinite(d.data[p:end]) {
		if d.missNumber(n) {
			return end
		}
		return d.fail(p, event.ReasonNotFinite, "%s is not a number", d.data[p:end])
	}
	return d.unexpected(p, "a value")
}

// special reads the value of a label, weight, ID or time, or skips a dropped value.
func (d *jsonDecoder) special(p int, n *node, depth int) int {
	if n.role == isDropped {
		return d.skip(p, depth)
	}
	if n.role == isLabel && d.s.Target == loss.Sign && p < len(d.data) {
		class, next, ok := d.seen.find(d.data, p)
		if ok {
			d.labeled, d.seenClass = true, class+1
			return next
		}
	}
	if p < len(d.data) && (d.data[p] == '{' || d.data[p] == '[') {
		reason, remedy := event.ReasonSyntax, ""
		switch {
		case n.role == isLabel && d.data[p] == '[':
			reason, remedy = event.ReasonLabel, ": an event has one label; for several, learn a model for each, as with jq -c '.label |= (index(\"CLASS\") != null)'"
		case n.role == isLabel:
			reason, remedy = event.ReasonLabel, fmt.Sprintf(": name the value in it, as in record.label = \"%.80s.name\"", n.name)
		case n.role == isWeight:
			reason = event.ReasonWeight
		}
		return d.fail(p, reason, "field %.80q holds several values%s", n.name, remedy)
	}
	text, next := d.scalar(p, &n.named)
	if text == nil {
		return next // null has no effect
	}
	quoted := d.data[p] == '"'
	if n.role == isLabel {
		if d.seen.value(next - p); !quoted && d.data[p] != 't' && d.data[p] != 'f' {
			text = d.typedLabel(text)
		}
	}
	if reason, detail := d.core.special(n.role, text, !quoted || !d.escaped); detail != "" {
		return d.fail(p, reason, "%s", detail)
	}
	return next
}

// skip reads a value without using it.
func (d *jsonDecoder) skip(p, depth int) int {
	if p >= len(d.data) || d.data[p] != '{' && d.data[p] != '[' {
		_, p = d.scalar(p, nil)
		return p
	}
	if depth == maxDepth {
		return d.fail(p, event.ReasonSyntax, "nested deeper than %d", maxDepth)
	}
	closing := d.data[p] + 2 // in ASCII the closing bracket is the opening bracket plus 2
	if p = d.space(p + 1); p < len(d.data) && d.data[p] == closing {
		return p + 1
	}
	for {
		if closing == '}' {
			if p >= len(d.data) || d.data[p] != '"' {
				return d.unexpected(p, "a field's name")
			}
			if _, p = d.str(p + 1); p < 0 {
				return p
			}
			if p = d.space(p); p >= len(d.data) || d.data[p] != ':' {
				return d.unexpected(p, "a colon")
			}
			p = d.space(p + 1)
		}
		if p = d.skip(p, depth+1); p < 0 {
			return p
		}
		p = d.space(p)
		if p < len(d.data) && d.data[p] == closing {
			return p + 1
		}
		if p >= len(d.data) || d.data[p] != ',' {
			return d.unexpected(p, "a comma or the end of it")
		}
		p = d.space(p + 1)
	}
}

// str reads a string whose opening quote is before p. It returns its text, valid until the next call, and the position
// after the closing quote. A lone surrogate becomes U+FFFD, as in encoding/json. Invalid UTF-8 is refused.
func (d *jsonDecoder) str(p int) ([]byte, int) {
	data, start := d.data, p
	d.escaped = false
	// Skip eight bytes at a time, up to the first quote, backslash, control character or non-ASCII byte.
	for len(data)-p >= 8 {
		if m := notPlain(binary.LittleEndian.Uint64(data[p:])); m != 0 {
			p += bits.TrailingZeros64(m) >> 3
			if data[p] == '"' {
				return data[start:p], p + 1
			}
			break
		}
		p += 8
	}
	ascii := true
	for p < len(data) {
		switch c := data[p]; {
		case c == '"':
			text := data[start:p]
			if !ascii && !utf8.Valid(text) {
				return nil, d.notUTF8(start, p)
			}
			return text, p + 1
		case c == '\\':
			return d.unescape(start, p)
		case c < ' ':
			return nil, d.fail(p, event.ReasonSyntax, "control character %U in a string", c)
		case c >= utf8.RuneSelf:
			ascii = false
		}
		p++
	}
	return nil, d.unexpected(p, "the end of a string")
}

func (d *jsonDecoder) notUTF8(start, end int) int {
	p := start + invalidUTF8(d.data[start:end])
	return d.fail(p, event.ReasonSyntax, "byte "+byteNotUTF8, d.data[p])
}

// unescaped has the characters that a letter after a backslash means, except u.
var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape continues str at the first backslash, which is at p.
func (d *jsonDecoder) unescape(start, p int) ([]byte, int) {
	data := d.data
	d.escaped = true
	out := append(d.scratch[:0], data[start:p]...)
	defer func() { d.scratch = out }()
	for p < len(data) {
		c := data[p]
		switch {
		case c == '"':
			if !utf8.Valid(out) {
				return nil, d.notUTF8(start, p)
			}
			return out, p + 1
		case c < ' ':
			return nil, d.fail(p, event.ReasonSyntax, "control character %U in a string", c)
		case c != '\\':
			out = append(out, c)
			p++
			continue
		}
		if p++; p >= len(data) {
			break
		}
		switch c := unescaped[data[p]]; {
		case c != 0:
			out = append(out, c)
		case data[p] == 'u':
			r, ok := hex4(data, p+1)
			if !ok {
				return nil, d.unexpected(p-1, `\u and four hexadecimal digits`)
			}
			p += 4
			if utf16.IsSurrogate(r) {
				second := rune(utf8.RuneError)
				if p+2 < len(data) && data[p+1] == '\\' && data[p+2] == 'u' {
					if s, ok := hex4(data, p+3); ok {
						second = utf16.DecodeRune(r, s)
					}
				}
				if r = second; r != utf8.RuneError {
					p += 6
				}
			}
			out = utf8.AppendRune(out, r)
		default:
			return nil, d.unexpected(p-1, "a known escape sequence")
		}
		p++
	}
	return nil, d.unexpected(len(data), "the end of a string")
}

func hex4(data []byte, p int) (r rune, ok bool) {
	if len(data)-p < 4 {
		return 0, false
	}
	x, err := strconv.ParseUint(string(data[p:p+4]), 16, 16)
	return rune(x), err == nil
}

// first records a key of n whose node c is not in the tree. It returns false if the key is repeated, or if there are
// more such keys than allowed features.
func (d *jsonDecoder) first(n, c *node, key string, p int) bool {
	once := onceKey{n.number, key}
	switch {
	case d.once[once]:
		d.fail(p, event.ReasonDuplicate, "field %.80q twice", c.name)
		return false
	case len(d.once) >= d.c.MaxFeatures:
		d.fail(p, event.ReasonTooMany, "more new fields than max_features, %d", d.c.MaxFeatures)
		return false
	case d.once == nil:
		d.once = map[onceKey]bool{}
	}
	d.once[once] = true
	return true
}

// child returns a new node for an unknown key of n at p, or nil after a failure.
func (d *jsonDecoder) child(n *node, key []byte, p, depth int) *node {
	joint := "."
	if n == d.root {
		joint = ""
	}
	if !d.room(n, len(joint)+len(key)) {
		return d.passing(n, joint, key, p, depth)
	}
	c := d.join(new(node), n, joint, key, p)
	if c.plain {
		name := string(key)
		if n.children == nil {
			n.children = map[string]*node{}
		}
		n.children[name] = c
		d.grown = append(d.grown, func() { delete(n.children, name) })
	}
	return c
}

// element returns a new node for element i of n, the first unknown element, or nil after a failure.
func (d *jsonDecoder) element(n *node, i, p, depth int) *node {
	key := func(i int) []byte {
		d.index = append(strconv.AppendInt(d.index[:0], int64(i), 10), ']')
		return d.index
	}
	for at := len(n.elements); at <= i && d.room(n, len("[")+len(key(at))); at++ {
		c := d.join(new(node), n, "[", key(at), p)
		n.elements = append(n.elements, c)
		d.grown = append(d.grown, func() { n.elements = n.elements[:len(n.elements)-1] })
		if at == i {
			return c
		}
	}
	return d.passing(n, "[", key(i), p, depth)
}

// room reports whether the tree may have another node below n. longer is the additional length of its name.
func (d *jsonDecoder) room(n *node, longer int) bool {
	return n.plain && d.nodes < d.c.MaxFields && n.size+longer <= maxNameBytes
}

// passing returns the temporary node for a depth. It is valid until the next call for that depth. It returns nil after
// a failure.
func (d *jsonDecoder) passing(n *node, joint string, key []byte, p, depth int) *node {
	c := d.spare[depth]
	if c == nil {
		c = &node{}
		d.spare[depth] = c
	}
	return d.join(c, n, joint, key, p)
}

// join makes c a new node whose name continues the name of parent, and returns it, or nil after a failure. The hash
// continues too, because joined names never exceed the stored length.
func (d *jsonDecoder) join(c, parent *node, joint string, key []byte, p int) *node {
	size := parent.size + len(joint) + len(key)
	if size > maxFieldBytes {
		d.fail(p, event.ReasonOversize, "field %.80q…: a name of %d bytes, the most is %d", parent.name+joint+string(key[:min(len(key), 80)]), size, maxFieldBytes)
		return nil
	}
	d.made++
	long := c.long
	*c = node{number: d.made, size: size}
	name := parent.name
	if len(name) <= maxNameBytes {
		name += joint + string(key)
	}
	if size <= maxNameBytes {
		c.named = d.named(name)
		if c.plain = parent.plain && d.nodes < d.c.MaxFields; c.plain {
			d.nodes++
		}
		return c
	}
	if long == nil {
		long = xxhash.New()
	}
	if c.long = long; parent.long != nil {
		*long = *parent.long
	} else {
		long.Reset()
		long.WriteString(parent.name)
	}
	long.WriteString(joint)
	long.Write(key)
	c.named = d.hashed(cutName(name), event.Mix(long.Sum64()+d.s.Seed))
	return c
}

// closedObject reports whether a line is a complete JSON object.
func closedObject(line []byte) bool { return bytes.HasSuffix(line, []byte("}")) && json.Valid(line) }

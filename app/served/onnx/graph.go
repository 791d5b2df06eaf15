package onnx

// This file encodes a graph as messages of onnx.proto (version 8 of the format), with their field numbers.

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// The versions of the operator sets: the standard set of ONNX, and the set of its machine learning domain.
const (
	formatVersion = 8
	operators     = 18
	domainML      = "ai.onnx.ml"
	operatorsML   = 3
)

// elementType is a TensorProto.DataType.
type elementType uint64

const (
	int64s  elementType = 7
	texts   elementType = 8
	bools   elementType = 9
	doubles elementType = 11
)

// graph collects nodes and constants. Tensors are referred to by name.
type graph struct {
	nodes, constants, inputs, outputs [][]byte
}

// attribute is a named setting of a node: an int, []int64 or []string.
type attribute struct {
	name  string
	value any
}

// add appends a node and returns the name of its only output.
func (g *graph) add(op string, inputs []string, attributes ...attribute) string {
	return g.named(fmt.Sprintf("value%d", len(g.nodes)), op, inputs, attributes...)
}

// named is add with a given name for the output.
func (g *graph) named(output, op string, inputs []string, attributes ...attribute) string {
	var b []byte
	for _, name := range inputs {
		b = text(b, 1, name)
	}
	b = text(text(b, 2, output), 4, op)
	for _, a := range attributes {
		b = message(b, 5, a.encode())
	}
	if op == "LabelEncoder" {
		b = text(b, 7, domainML)
	}
	g.nodes = append(g.nodes, b)
	return output
}

func (a attribute) encode() []byte {
	b := text(nil, 1, a.name)
	switch v := a.value.(type) {
	case int:
		return number(number(b, 3, uint64(v)), 20, 2)
	case []int64:
		for _, x := range v {
			b = number(b, 8, uint64(x))
		}
		return number(b, 20, 7)
	case []string:
		for _, s := range v {
			b = text(b, 9, s)
		}
		return number(b, 20, 8)
	}
	panic(fmt.Sprintf("an attribute of type %T", a.value))
}

// constant adds a tensor with the given shape, and returns its name. encode appends the tensor's elements to its
// message.
func (g *graph) constant(t elementType, shape []int, encode func(b []byte) []byte) string {
	name := fmt.Sprintf("constant%d", len(g.constants))
	var b []byte
	for _, n := range shape {
		b = number(b, 1, uint64(n))
	}
	g.constants = append(g.constants, text(encode(number(b, 2, uint64(t))), 8, name))
	return name
}

// raw is the number of the field raw_data, which has elements of a fixed width, little-endian.
const raw = 9

// doubles adds a constant of values in rows of the given width. Width 0 makes a vector.
func (g *graph) doubles(width int, values ...float64) string {
	return g.fixed(doubles, shape(width, len(values)), values)
}

// ints adds a constant vector.
func (g *graph) ints(values ...int64) string { return g.fixed(int64s, []int{len(values)}, values) }

// bools adds a constant of one row.
func (g *graph) bools(values []bool) string { return g.fixed(bools, []int{1, len(values)}, values) }

// fixed adds a constant of a slice of elements of a fixed width.
func (g *graph) fixed(t elementType, shape []int, values any) string {
	return g.constant(t, shape, func(b []byte) []byte {
		data, err := binary.Append(nil, binary.LittleEndian, values)
		if err != nil {
			panic(err) // cannot happen: all elements have a fixed width
		}
		return message(b, raw, data)
	})
}

// texts adds a constant vector.
func (g *graph) texts(values []string) string {
	return g.constant(texts, []int{len(values)}, func(b []byte) []byte {
		for _, s := range values {
			b = text(b, 6, s)
		}
		return b
	})
}

func shape(width, n int) []int {
	if width == 0 {
		return []int{n}
	}
	return []int{n / width, width}
}

// input declares an input: n rows of the given width.
func (g *graph) input(name string, t elementType, width int) {
	g.inputs = append(g.inputs, value(name, t, width))
}

// output declares an output: n rows of the given width, or n elements for width 0.
func (g *graph) output(name string, t elementType, width int) {
	g.outputs = append(g.outputs, value(name, t, width))
}

// value returns a ValueInfoProto.
func value(name string, t elementType, width int) []byte {
	shape := message(nil, 1, text(nil, 2, "n"))
	if width > 0 {
		shape = message(shape, 1, number(nil, 1, uint64(width)))
	}
	tensor := message(number(nil, 1, uint64(t)), 2, shape)
	return message(text(nil, 1, name), 2, message(nil, 1, tensor))
}

// encode returns the ModelProto of the graph.
func (g *graph) encode() []byte {
	var b []byte
	all := func(field protowire.Number, messages [][]byte) {
		for _, m := range messages {
			b = message(b, field, m)
		}
	}
	all(1, g.nodes)
	b = text(b, 2, "blankout")
	all(5, g.constants)
	all(11, g.inputs)
	all(12, g.outputs)
	m := message(text(number(nil, 1, formatVersion), 2, "blankout"), 7, b)
	m = message(m, 8, number(text(nil, 1, ""), 2, operators))
	return message(m, 8, number(text(nil, 1, domainML), 2, operatorsML))
}

func number(b []byte, field protowire.Number, x uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), x)
}

func text(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func message(b []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
}

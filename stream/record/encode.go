package record

// This file encodes records with a schema, for the command produce and for tests.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/twmb/avro"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"blankout/stream/registry"
)

// Encoder encodes JSON objects with a schema, in the wire format of a schema registry.
type Encoder struct {
	Kind   string // kind of the schema in the registry: AVRO, PROTOBUF or JSON
	encode func(object []byte) ([]byte, error)
}

// NewEncoder returns an Encoder for a schema. The suffix of its file name determines its kind: .avsc, .proto (the first
// message is used) or .json. References to other subjects of the registry are not supported.
func NewEncoder(name, schema string) (*Encoder, error) {
	switch filepath.Ext(name) {
	case ".avsc":
		s, err := avro.Parse(schema)
		if err != nil {
			return nil, err
		}
		if _, err := compileAvro(&registry.Schema{Type: "AVRO", Text: schema}); err != nil {
			return nil, err
		}
		return &Encoder{"AVRO", func(object []byte) ([]byte, error) {
			var value any
			d := json.NewDecoder(bytes.NewReader(object))
			d.UseNumber()
			if err := d.Decode(&value); err != nil {
				return nil, err
			}
			return s.Encode(value)
		}}, nil
	case ".proto":
		file, err := compileProtobuf(&registry.Schema{Type: "PROTOBUF", Text: schema})
		if err != nil {
			return nil, err
		}
		return &Encoder{"PROTOBUF", func(object []byte) ([]byte, error) {
			m := dynamicpb.NewMessage(file.Messages().Get(0))
			if err := protojson.Unmarshal(object, m); err != nil {
				return nil, err
			}
			return proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte{0}, m)
		}}, nil
	case ".json":
		if !json.Valid([]byte(schema)) {
			return nil, errors.New("it is not JSON")
		}
		return &Encoder{"JSON", func(object []byte) ([]byte, error) {
			if !json.Valid(object) {
				return nil, errors.New("it is not JSON")
			}
			return object, nil
		}}, nil
	}
	return nil, fmt.Errorf("%s: the name of a schema's file ends in .avsc (Avro), .proto (Protobuf) or .json (JSON Schema)", name)
}

// Encode encodes a JSON object as a record of the schema. id is the ID of the schema in the registry.
func (e *Encoder) Encode(id uint32, object []byte) ([]byte, error) {
	value, err := e.encode(object)
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, id), value...), nil
}

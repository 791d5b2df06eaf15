package record

// This file reads records in Confluent's wire format. A record has a zero byte, the ID of a schema in a registry, and a
// value encoded with that schema.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"blankout/internal/event"
	"blankout/stream/registry"
)

// wire decodes records in the wire format. compile prepares each schema once.
type wire struct {
	places
	registry *registry.Client
	kind     string // kind of the schemas in the registry
	compile  func(*registry.Schema) (valueDecoder, error)
	schemas  map[uint32]compiled
}

// valueDecoder adds the content of a value to d. It returns false if it fails, and d has stored the reason.
type valueDecoder func(d *places, value []byte) bool

type compiled struct {
	decode valueDecoder
	err    error
}

// maxSchemas is the largest number of cached compiled schemas.
const maxSchemas = 1000

func newWire(c core, kind string, compile func(*registry.Schema) (valueDecoder, error)) (Decoder, error) {
	if c.c.Registry == nil {
		return nil, event.KeyErrorf("format", "format %s: needs a schema registry: set url of [registry]", c.c.Format)
	}
	return &wire{places: newPlaces(c), registry: c.c.Registry, kind: kind, compile: compile, schemas: map[uint32]compiled{}}, nil
}

func (d *wire) Decode(ctx context.Context, r Record, e *event.Example) error {
	if !d.begin(&r, e, true) {
		return nil
	}
	id, value := binary.BigEndian.Uint32(r.Value[1:]), r.Value[5:]
	schema, err := d.schema(ctx, id)
	if err != nil {
		return err
	}
	if schema.err != nil {
		why := fmt.Errorf("schema %d: %w", id, schema.err)
		d.registry.Use(why)
		d.refuse(&r, e, event.ReasonSchema, "%v", why)
		return nil
	}
	d.registry.Use(nil)
	d.left = 4*d.c.MaxFeatures + len(value)
	schema.decode(&d.places, value)
	d.end(&r, e)
	return nil
}

// schema returns the decoder of a schema. It returns an error only if ctx ends.
func (d *wire) schema(ctx context.Context, id uint32) (compiled, error) {
	if c, ok := d.schemas[id]; ok {
		return c, nil
	}
	s, err := d.registry.Schema(ctx, id)
	if denied, ok := errors.AsType[*registry.DeniedError](err); ok {
		return compiled{err: denied}, nil // the schema may become known later
	} else if err != nil {
		return compiled{}, err
	}
	var c compiled
	if s.Type != d.kind {
		c.err = fmt.Errorf("it has type %s, but the format is %s", s.Type, d.c.Format)
	} else {
		c.decode, c.err = d.compile(s)
	}
	if len(d.schemas) >= maxSchemas {
		clear(d.schemas)
	}
	d.schemas[id] = c
	return c, nil
}

// jsonSchema decodes JSON after the header of the wire format. It does not need the schema.
type jsonSchema struct{ *jsonDecoder }

func newJSONSchema(c core) (Decoder, error) { return &jsonSchema{newJSONDecoder(c)}, nil }

func (d *jsonSchema) Decode(ctx context.Context, r Record, e *event.Example) error {
	if !d.begin(&r, e, true) {
		return nil
	}
	whole := r.Value
	r.Value = whole[5:]
	if err := d.jsonDecoder.Decode(ctx, r, e); err != nil {
		return err
	}
	if e.Refused != nil {
		e.Refused.Value = whole
	}
	if e.Value != nil {
		e.Value = whole
	}
	return nil
}

package record_test

import (
	"context"
	"fmt"

	"blankout/internal/event"
	"blankout/stream/record"
)

// A Decoder decodes records to events. It adds their fields, classes and names to the Schema.
func ExampleNewDecoder() {
	c := record.DefaultConfig()
	c.Label = "bought"
	schema := c.Schema()
	decoder, err := record.NewDecoder(c, schema)
	if err != nil {
		fmt.Println(err)
		return
	}
	name := func(column uint32) string { return schema.Namer()(column) }
	var e event.Example
	for _, text := range []string{
		`{"bought": true, "price": 2.5}`,
		`{"bought": false, "words": ["cheap", "cheap"]}`,
		`{"bought": true, "price": cheap}`,
	} {
		if err := decoder.Decode(context.Background(), record.Record{Value: []byte(text)}, &e); err != nil {
			fmt.Println(err)
			return
		}
		if e.Refused != nil {
			fmt.Println("refused:", e.Refused)
			continue
		}
		fmt.Println(schema.Classes[e.Label], name(e.Features.Index[0]), e.Features.Value[0])
	}
	// Output:
	// true price 2.5
	// false words=cheap 2
	// refused: syntax: byte 27: 'c' where a value should be
}

package record

import (
	"context"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
)

// newDecoder returns a decoder with a new Schema.
func newDecoder(t testing.TB, c Config) (*event.Schema, Decoder) {
	t.Helper()
	s := c.Schema()
	return s, must.Get(NewDecoder(c, s))(t)
}

// decoded returns the event that a decoder makes of a value.
func decoded[Text string | []byte](d Decoder, value Text) (e event.Example) {
	d.Decode(context.Background(), Record{Value: []byte(value)}, &e)
	return e
}

// refuses checks that a decoder refuses a value for the given reason.
func refuses[Text string | []byte](t *testing.T, d Decoder, value Text, reason event.Reason) {
	t.Helper()
	e := decoded(d, value)
	must.True(t, e.Refused != nil && e.Refused.Reason == reason, "%q: %v, want %s", value, e.Refused, reason)
}

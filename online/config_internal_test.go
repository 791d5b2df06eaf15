package online

import (
	"reflect"
	"slices"
	"testing"

	"blankout/internal/event"
)

// Every key of Config changes the Fingerprint, or is one that may change from run to
// run; nothing is in neither.
func TestFingerprintHoldsEveryKey(t *testing.T) {
	s := event.NewSchema(4, nil, 2)
	base := FingerprintOf(DefaultConfig(), s)
	for i := range reflect.TypeFor[Config]().NumField() {
		c := DefaultConfig()
		c.IRLSBatch, c.Noise = 100, "dropout:0.5" // so that irls_window says something and levels nothing
		was := FingerprintOf(c, s)
		field := reflect.ValueOf(&c).Elem().Field(i)
		switch field.Kind() {
		case reflect.String:
			if field.SetString("other"); field.Type() == reflect.TypeFor[NoisyGradient]() {
				c.Optimizer, c.NoisyGradient = "dropout-descent", "true"
				was = FingerprintOf(c, s)
				c.NoisyGradient = "false"
			}
		case reflect.Float64:
			field.SetFloat(field.Float() + 0.125)
		case reflect.Int:
			field.SetInt(field.Int() + 100)
			if c.IRLSBatch != 100 || c.IRLSWindow != 0 {
				c.IRLSWindow += 1000
			}
		case reflect.Bool:
			field.SetBool(!field.Bool())
		case reflect.Slice:
			field.Set(reflect.ValueOf([]float64{0.5}))
		case reflect.Map:
			field.Set(reflect.MakeMap(field.Type()))
			field.SetMapIndex(reflect.ValueOf("a"), reflect.Zero(field.Type().Elem()))
		default:
			t.Fatalf("a key of kind %v: tell this test how to change it", field.Kind())
		}
		key := keyOf(reflect.TypeFor[Config]().Field(i))
		if key == keyMaxMemory {
			continue // it is in the Fingerprint where it is not the default, and may change, see TestBoundIsKept
		}
		changed := len(FingerprintOf(c, s).Diff(was)) > 0
		if operational := slices.Contains(mayChange, key); changed == operational {
			t.Errorf("%s: changes the fingerprint: %v; may change from run to run: %v", key, changed, operational)
		}
		if _, there := base[key]; there == slices.Contains(mayChange, key) {
			t.Errorf("%s: in the fingerprint: %v", key, there)
		}
	}
	for key, change := range map[string]func(*event.Schema){
		"bits": func(s *event.Schema) { s.Bits++ }, "seed": func(s *event.Schema) { s.Seed++ },
		"zero_based":      func(s *event.Schema) { s.ZeroBased = true },
		"numeric_indices": func(s *event.Schema) { s.NumericIndices = true },
		"crosses":         func(s *event.Schema) { s.Crosses = [][2]string{{"a", "b"}} },
		"max_classes":     func(s *event.Schema) { s.MaxClasses++ },
	} {
		other := event.NewSchema(4, nil, 2)
		change(other)
		if diff := FingerprintOf(DefaultConfig(), other).Diff(base); len(diff) != 1 {
			t.Errorf("%s: differences %q", key, diff)
		}
	}
}

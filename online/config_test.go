package online

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/online/rules"
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

// What two configurations say in other words is the same; a difference names the key.
func TestFingerprintInOtherWords(t *testing.T) {
	c := DefaultConfig()
	s := event.NewSchema(4, nil, 2)
	was := FingerprintOf(c, s)
	c.Loss, c.IRLSWindow = "logistic", 0
	if diff := FingerprintOf(c, s).Diff(was); len(diff) > 0 {
		t.Errorf("in other words: %q", diff)
	}
	c.LearningRate = math.Pi
	if diff := FingerprintOf(c, s).Diff(was); len(diff) != 1 {
		t.Errorf("another rate: %q", diff)
	}
	was["gone"] = "x"
	if diff := FingerprintOf(c, s).Diff(was); len(diff) != 2 {
		t.Errorf("a key that is unknown: %q", diff)
	}
}

// At the bounds of the learning rate and the cost every rule stays within numbers; beyond
// them a configuration is refused with its bound.
func TestBounds(t *testing.T) {
	longtest.NotRaced(t)
	refused := []struct {
		eta, c float64
		want   string
	}{{1e200, 1, "1e+06"}, {2e6, 1, "1e+06"}, {1e-300, 1, "1e-12"}, {-1, 1, "1e-12"}, {math.NaN(), 1, "1e-12"}, {math.Inf(1), 1, "1e+06"},
		{0, 5e-324, "1e-30"}, {0, 1e300, "1e+30"}, {0, 0, "1e-30"}, {0, -1, "1e-30"}, {0, math.NaN(), "1e-30"}}
	for _, x := range refused {
		c := DefaultConfig()
		c.LearningRate, c.C = x.eta, x.c
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("eta %v, c %v: %v, want the bound %s", x.eta, x.c, err, x.want)
		}
	}
	for _, rule := range rules.Names() {
		for i, eta := range []float64{0, 1e-12, 1, 1e6} {
			for j, cost := range []float64{1e-30, 1e-12, 1e-5, 1e-3, 1, 1e30, math.Inf(1)} {
				for k, intercept := range []string{"free", "penalized"} {
					for m, name := range []string{"logistic", "hinge"} {
						if (i+j)%4 != k+2*m { // each eta and each cost with every intercept and loss
							continue
						}
						c := DefaultConfig()
						c.Optimizer, c.LearningRate, c.C, c.Intercept, c.Loss = rule, eta, cost, intercept, name
						if c.Optimizer == "dropout-descent" {
							c.Noise = "dropout:0.3"
						}
						if c.Optimizer == "irls" {
							c.IRLSBatch = 20
						}
						if c.Check() != nil {
							continue
						}
						l, s := mustNew(t, c, 2), newStream(7, 2)
						for range 200 {
							l.Learn(s.next(), nil)
						}
						m := l.Snapshot().Model() // which cannot be made of what is no number
						for range 20 {
							if score := m.Score(s.next(), make([]float64, 2))[0]; score-score != 0 {
								t.Errorf("%s, %s, eta %v, c %v, %s: score %v", rule, name, eta, cost, intercept, score)
								break
							}
						}
					}
				}
			}
		}
	}
}

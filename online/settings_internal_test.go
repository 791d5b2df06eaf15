package online

import (
	"reflect"
	"testing"
)

// The settings that a fingerprint tells are those that it was made of.
func TestFingerprintConfig(t *testing.T) {
	c := DefaultConfig()
	c.Levels = []float64{0.05, 0.9}
	c.C, c.LearningRate, c.L1, c.IRLSBatch, c.IRLSWindow, c.Adapt, c.HalfLife = 1e-9, 0.25, 0, 200, 400, false, 1e6
	c.ClassWeight = map[string]float64{"very bad": 20, "a:b c": 1e-7, "": 3}
	c.FieldTransform = map[string]string{"paid in": "asinh", "x: of": "none", "y": "auto"}
	c.IRLSBatch, c.IRLSWindow = 0, 0
	for _, c := range []Config{DefaultConfig(), c, {Loss: "hinge:gaussian", Noise: "dropout:0.2", Optimizer: "ftrl", NoisyGradient: AutoGradient, L1: 0.5, C: 1,
		Intercept: "none", Standardize: "none", Transform: "none", SilentValue: "auto", MissingPolicy: "rescale", CovarianceMaxFields: DefaultConfig().CovarianceMaxFields, Presence: "none", OnDrift: "forget", Stuck: "missing", Threshold: 0.5, Coverage: 0.9, Calibrate: "auto"}} {
		got, err := c.fingerprint().Config()
		if c.Noise == "auto" {
			c.Levels, c.GroupLevels = c.bank() // it names them
		}
		if err != nil {
			t.Errorf("%v: %v", c, err)
		} else if !reflect.DeepEqual(got, c) {
			t.Errorf("got  %+v\nwant %+v", got, c)
		}
	}
	for key, value := range map[string]string{"c": "one", "adapt": "perhaps", "irls_batch": "1.5", "class_weight": "map[x]", "noise": "auto [x]", "loss": "none"} {
		if _, err := (Fingerprint{key: value}).Config(); err == nil {
			t.Errorf("%s = %s is taken", key, value)
		}
	}
}

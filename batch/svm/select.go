package svm

// This file sets and varies the settings of kernel machines.

import (
	"fmt"
	"strconv"
	"strings"
)

// Set changes one setting. The argument key is the name of its flag: drop-q, keep, epochs or loss.
func (k *Config) Set(key, value string) error {
	number := func(to *float64) error {
		x, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("%s = %q is not a number", key, value)
		}
		*to = x
		return nil
	}
	switch key {
	case "drop-q":
		k.Drop.Q = AutoStrength
		if value != "auto" {
			if err := number(&k.Drop.Q); err != nil {
				return err
			}
			if !(k.Drop.Q >= 0) {
				return fmt.Errorf("drop-q = %s: want auto or a number that is not negative", value)
			}
		}
	case "keep":
		return number(&k.Drop.Keep)
	case "epochs":
		k.Drop.Epochs = 0
		if value != "inf" {
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 {
				return fmt.Errorf("epochs = %q: want a positive number or inf", value)
			}
			k.Drop.Epochs = n
		}
	case "loss":
		_, form, has := strings.Cut(value, ":")
		if !IsLoss(value) || has && form != "square" && form != "ridge" && form != "hinge" {
			return fmt.Errorf("loss %q: want dropsvm, dropsvm:hinge, dropsvm:square or dropsvm:ridge", value)
		}
		k.Square, k.Ridge = form == "square" || form == "ridge", form == "ridge"
	default:
		return fmt.Errorf("no setting %q of a kernel machine: want drop-q, keep, epochs or loss", key)
	}
	return nil
}

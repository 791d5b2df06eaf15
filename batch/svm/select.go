package svm

// This file varies the settings of kernel machines for a search over a grid.

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"blankout/batch"
	"blankout/internal/model"
)

// Machine holds the settings of a kernel machine. It implements batch.Settings, so batch.Select can vary them.
type Machine struct {
	Config batch.Config
	Kernel Config
}

// Check returns the first error in the settings that can be found without data.
func (m Machine) Check() error { return m.Kernel.Check(m.Config) }

// sharedKeys are the settings of a batch.Config that apply to kernel machines.
var sharedKeys = []string{"c", "cost", "l2", "ell", "intercept", "multiclass"}

// With returns a copy of the settings with one setting changed. The key is the name of its flag.
func (m Machine) With(key, value string) (Machine, error) {
	if slices.Contains(sharedKeys, key) {
		err := m.Config.Set(key, value)
		return m, err
	}
	err := m.Kernel.Set(key, value)
	return m, err
}

// Set changes one setting. The argument key is the name of its flag: kernel, sigma (of the kernel), degree, drop-q,
// keep, epochs or loss.
func (k *Config) Set(key, value string) error {
	number := func(to *float64) error {
		x, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("%s = %q is not a number", key, value)
		}
		*to = x
		return nil
	}
	name, _, _ := strings.Cut(k.Kernel, ":")
	switch key {
	case "kernel":
		k.Kernel = value
	case "sigma", "degree":
		if (name == "poly") != (key == "degree") || name == "linear" {
			return fmt.Errorf("kernel %s has no %s", name, key)
		}
		k.Kernel = name + ":" + value
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
		return fmt.Errorf("no setting %q of a kernel machine to vary: want one of kernel, sigma, degree, drop-q, keep, epochs, loss, %s", key, strings.Join(sharedKeys, ", "))
	}
	return nil
}

// Chain returns a function that trains on d with settings that differ only in their cost. Call it for one setting after
// the other; the calls share their matrices. The memory limit is divided among workers chains.
func (Machine) Chain(d *batch.Data, workers int) func(context.Context, Machine) (model.Model, error) {
	var shared *trainer
	return func(ctx context.Context, m Machine) (model.Model, error) {
		m.Config.Threads, m.Config.Progress = 1, nil
		m.Kernel.Memory /= workers
		t, err := newTrainer(d, m.Config, m.Kernel, shared)
		if err != nil {
			return nil, err
		}
		shared = t
		fit, err := t.train(ctx)
		if err != nil {
			return nil, err
		}
		return fit.Model, nil
	}
}

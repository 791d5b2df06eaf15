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

// Machine is the settings of a kernel machine, which batch.Select can vary: it
// implements batch.Settings.
type Machine struct {
	Config batch.Config
	Kernel Config
}

// Check returns the first thing wrong that can be told without data.
func (m Machine) Check() error { return m.Kernel.Check(m.Config) }

// sharedKeys are the settings of the batch.Config that kernel machines have.
var sharedKeys = []string{"c", "cost", "l2", "ell", "intercept", "multiclass"}

// With returns the settings with the one of a flag's name changed.
func (m Machine) With(key, value string) (Machine, error) {
	if slices.Contains(sharedKeys, key) {
		err := m.Config.Set(key, value)
		return m, err
	}
	err := m.Kernel.Set(key, value)
	return m, err
}

// Set gives the setting of a flag's name a value: one of kernel, sigma (of the
// kernel), degree, drop-q, keep, epochs and loss.
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

// Chain returns what trains on d, one after the other, settings that differ in their
// cost alone: they share their matrices. The chains, as many as there are workers, share
// the memory.
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

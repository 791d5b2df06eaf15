package batch

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"blankout"
)

// KernelMachine is the settings of a kernel machine, for Select to vary.
type KernelMachine struct {
	Config Config
	Kernel KernelConfig
}

// Check returns the first thing wrong that can be told without data.
func (m KernelMachine) Check() error { return m.Kernel.Check(m.Config) }

// kernelKeys are the settings of the Config that kernel machines have.
var kernelKeys = []string{"c", "cost", "l2", "ell", "intercept", "multiclass"}

// With returns the settings with the one of a flag's name changed.
func (m KernelMachine) With(key, value string) (KernelMachine, error) {
	if slices.Contains(kernelKeys, key) {
		err := m.Config.Set(key, value)
		return m, err
	}
	err := m.Kernel.Set(key, value)
	return m, err
}

// Set gives the setting of a flag's name a value: one of kernel, sigma (of the
// kernel), degree, drop-q, keep, epochs and loss.
func (k *KernelConfig) Set(key, value string) error {
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
		if !IsKernel(value) || has && form != "square" && form != "hinge" {
			return fmt.Errorf("loss %q: want dropsvm, dropsvm:hinge or dropsvm:square", value)
		}
		k.Square = form == "square"
	default:
		return fmt.Errorf("no setting %q of a kernel machine to vary: want one of kernel, sigma, degree, drop-q, keep, epochs, loss, %s", key, strings.Join(kernelKeys, ", "))
	}
	return nil
}

// Chain returns what trains on d, one after the other, settings that differ in their
// cost alone: they share their matrices. So many chains, workers, share the memory.
func (KernelMachine) Chain(d *Data, workers int) func(context.Context, KernelMachine) (blankout.Model, error) {
	var shared *kernelTrainer
	return func(ctx context.Context, m KernelMachine) (blankout.Model, error) {
		m.Config.Threads, m.Config.Progress = 1, nil
		m.Kernel.Memory /= workers
		t, err := newKernelTrainer(d, m.Config, m.Kernel, shared)
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

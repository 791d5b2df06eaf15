package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"blankout"
	"blankout/batch"
	"blankout/checkpoint"
)

// kernelFlags are those of --loss dropsvm.
type kernelFlags struct {
	config batch.KernelConfig
	epochs string
	memory int
}

func (k *kernelFlags) add(f *pflag.FlagSet) {
	k.config = batch.DefaultKernelConfig()
	f.StringVar(&k.config.Kernel, "kernel", k.config.Kernel, "of dropsvm: linear, rbf[:SIGMA], poly:DEGREE or chi2[:SIGMA]")
	f.Float64Var(&k.config.Drop.Q, "drop-q", k.config.Drop.Q, "of dropsvm: strength of the penalty; 0 is the ordinary support vector machine")
	f.Float64Var(&k.config.Drop.Keep, "keep", k.config.Drop.Keep, "of dropsvm: probability that an entry of the kernel matrix stays")
	f.StringVar(&k.epochs, "epochs", "inf", "of dropsvm: `N` rounds of dropping, or inf for their limit in closed form")
	f.IntVar(&k.memory, "memory", k.config.Memory>>20, "of dropsvm: `MB` for kernel matrices")
}

// isKernel reports whether a loss is one of kernel machines: dropsvm, or
// dropsvm:square for the square loss.
func isKernel(loss string) bool { return loss == "dropsvm" || strings.HasPrefix(loss, "dropsvm:") }

// check returns the first thing wrong with the flags of a kernel machine.
func (o *trainFlags) checkKernel() error {
	k := &o.kernel
	_, form, has := strings.Cut(o.config.Loss, ":")
	if has && form != "square" && form != "hinge" {
		return fmt.Errorf("loss %q: want dropsvm, dropsvm:hinge or dropsvm:square", o.config.Loss)
	}
	k.config.Square = form == "square"
	if _, err := batch.ParseKernel(k.config.Kernel); err != nil {
		return err
	}
	k.config.Drop.Epochs = 0
	if k.epochs != "inf" {
		n, err := strconv.Atoi(k.epochs)
		if err != nil || n < 1 {
			return fmt.Errorf("--epochs %q: want a positive number or inf", k.epochs)
		}
		k.config.Drop.Epochs = n
	}
	k.config.Drop.Seed = o.config.Seed
	if err := k.config.Drop.Check(); err != nil {
		return err
	}
	if k.memory < 1 || k.memory > 1<<30 {
		return fmt.Errorf("--memory %d: want a number of MB", k.memory)
	}
	k.config.Memory = k.memory << 20
	c := &o.config
	switch {
	case c.Noise != "none" || c.Copies > 0:
		return fmt.Errorf("dropsvm knows no feature noise: it drops samples (--drop-q, --keep)")
	case c.Bound != "":
		return fmt.Errorf("dropsvm knows no --bound")
	case o.folds > 0:
		return fmt.Errorf("--folds and --grid choose settings of linear models only")
	case c.Solver != "" && c.Solver != batch.SMO:
		return fmt.Errorf("solver %q: dropsvm is solved by smo", c.Solver)
	}
	return nil
}

// trained is what train has to say of a model of either kind.
type trained struct {
	batch.Fit
	kind       checkpoint.Kind
	blocks     func() ([]blankout.Block, error)
	trainError func() float64
}

// trainLinear runs batch.Train.
func (o *trainFlags) trainLinear(ctx context.Context, d *batch.Data, scaler *blankout.Model) (*trained, error) {
	fit, err := batch.Train(ctx, d, o.config)
	if err != nil {
		return nil, err
	}
	wrong := func() float64 { return fit.TrainError(d) }
	if o.config.Loss == "linear" || o.config.Loss == "poisson" {
		wrong = nil
	}
	model := fit.Model
	if scaler != nil {
		model = withScaler(model, scaler)
	}
	return &trained{*fit, checkpoint.Linear, model.Blocks, wrong}, nil
}

// trainKernel runs batch.TrainKernel.
func (o *trainFlags) trainKernel(ctx context.Context, d *batch.Data, scaler *blankout.Model) (*trained, error) {
	fit, err := batch.TrainKernel(ctx, d, o.config, o.kernel.config)
	if err != nil {
		return nil, err
	}
	m := fit.Model
	t := &trained{kind: checkpoint.Kernel, blocks: m.Blocks, trainError: func() float64 { return fit.TrainError(d) }}
	t.Objective, t.Gap, t.Converged, t.Iterations, t.Seconds = fit.Objective, fit.Gap, fit.Converged, fit.Iterations, fit.Seconds
	if scaler != nil && scaler.Layout.Stats >= 0 {
		m.Scaler, m.Layout = scaler.Scaler, blankout.Layout{Width: blankout.ScalerWidth}
		m.Rows = blankout.NewTable(blankout.ScalerWidth)
		for i := range scaler.Rows.Len() {
			column, row := scaler.Rows.Column(i)
			copy(m.Rows.Touch(column), row[scaler.Layout.Stats:][:blankout.ScalerWidth])
		}
	}
	if math.IsNaN(t.Objective) {
		return nil, fmt.Errorf("the objective is not a number: rescale the features")
	}
	return t, nil
}

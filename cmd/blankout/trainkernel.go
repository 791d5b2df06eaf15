package main

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/pflag"

	"blankout"
	"blankout/batch"
	"blankout/checkpoint"
	"blankout/loss"
)

// kernelFlags are those of --loss dropsvm.
type kernelFlags struct {
	config batch.KernelConfig
	// Flags whose text KernelConfig.Set reads.
	strength, epochs string
	memory           int
}

func (k *kernelFlags) add(f *pflag.FlagSet) {
	k.config = batch.DefaultKernelConfig()
	f.StringVar(&k.config.Kernel, "kernel", k.config.Kernel, "of dropsvm: linear, rbf[:SIGMA], poly:DEGREE or chi2[:SIGMA]")
	f.StringVar(&k.strength, "drop-q", "auto", "of dropsvm: strength of the penalty; 0 is the ordinary support vector machine, auto 1/n for\nn examples")
	f.Float64Var(&k.config.Drop.Keep, "keep", k.config.Drop.Keep, "of dropsvm: probability that an entry of the kernel matrix stays")
	f.StringVar(&k.epochs, "epochs", "inf", "of dropsvm: `N` rounds of dropping, or inf for their limit in closed form")
	f.IntVar(&k.memory, "memory", k.config.Memory>>20, "of dropsvm: `MB` for kernel matrices")
}

// checkKernel returns the first thing wrong with the flags of a kernel machine.
func (o *trainFlags) checkKernel() error {
	k := &o.kernel
	for _, set := range [][2]string{{"loss", o.config.Loss}, {"drop-q", k.strength}, {"epochs", k.epochs}} {
		if err := k.config.Set(set[0], set[1]); err != nil {
			return err
		}
	}
	k.config.Drop.Seed = o.config.Seed
	if k.memory < 1 || k.memory > 1<<30 {
		return fmt.Errorf("--memory %d: want a number of MB", k.memory)
	}
	k.config.Memory = k.memory << 20
	c := &o.config
	switch {
	case c.Noise != "none" || c.Copies > 0:
		return fmt.Errorf("dropsvm knows no feature noise: it drops samples (--drop-q, --keep)")
	case c.Bound != "" && c.Bound != "gaussian":
		return fmt.Errorf("dropsvm knows no --bound")
	case c.Solver != "" && c.Solver != batch.SMO:
		return fmt.Errorf("solver %q: dropsvm is solved by smo", c.Solver)
	}
	return k.config.Check(*c)
}

// trained is what train has to say of a model of either kind.
type trained struct {
	batch.Fit
	kind       checkpoint.Kind
	blocks     func() ([]blankout.Block, error)
	trainError func() float64
}

// trainLinear runs batch.Train.
func (o *trainFlags) trainLinear(ctx context.Context, d *batch.Data, scaler *blankout.Linear) (*trained, error) {
	fit, err := batch.Train(ctx, d, o.config)
	if err != nil {
		return nil, err
	}
	wrong := func() float64 { return fit.TrainError(d) }
	if loss.IsRegression(o.config.Loss) {
		wrong = nil
	}
	model := fit.Model
	if scaler != nil {
		model = withScaler(model, scaler)
	}
	return &trained{*fit, checkpoint.Linear, model.Blocks, wrong}, nil
}

// trainKernel runs batch.TrainKernel.
func (o *trainFlags) trainKernel(ctx context.Context, d *batch.Data, scaler *blankout.Linear) (*trained, error) {
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
		scaler.CopyStats(m.Rows, 0)
	}
	if math.IsNaN(t.Objective) {
		return nil, fmt.Errorf("the objective is not a number: rescale the features")
	}
	return t, nil
}

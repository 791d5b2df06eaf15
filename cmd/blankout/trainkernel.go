package main

// This file implements train --loss dropsvm. It also has the common type for the training of linear models and of
// kernel machines.

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/pflag"

	"blankout/batch"
	"blankout/batch/svm"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
)

// kernelFlags are the flags of --loss dropsvm.
type kernelFlags struct {
	config svm.Config
	// strength and epochs are parsed by svm.Config.Set.
	strength, epochs string
}

func (k *kernelFlags) add(f *pflag.FlagSet) {
	k.config = svm.DefaultConfig()
	f.StringVar(&k.config.Kernel, "kernel", k.config.Kernel, "dropsvm: kernel linear, rbf[:SIGMA], poly:DEGREE or chi2[:SIGMA]")
	f.StringVar(&k.strength, "drop-q", "auto", "dropsvm: strength of the penalty\n0 is the ordinary support vector machine, auto is 1/n for n examples")
	f.Float64Var(&k.config.Drop.Keep, "keep", k.config.Drop.Keep, "dropsvm: probability that an entry of the kernel matrix is kept")
	f.StringVar(&k.epochs, "epochs", "inf", "dropsvm: `N` rounds of dropping, or inf for their closed-form limit")
}

// checkKernel returns the first error in the flags of a kernel machine.
func (o *trainFlags) checkKernel() error {
	k := &o.kernel
	for _, set := range [][2]string{{"loss", o.config.Loss}, {"drop-q", k.strength}, {"epochs", k.epochs}} {
		if err := k.config.Set(set[0], set[1]); err != nil {
			return err
		}
	}
	k.config.Drop.Seed = o.config.Seed
	c := &o.config
	switch {
	case c.Noise != "none" || c.Copies > 0:
		return fmt.Errorf("dropsvm has no feature noise: it drops samples (--drop-q, --keep)")
	case c.L1 > 0:
		return fmt.Errorf("dropsvm has no --l1: its weights belong to samples, not features")
	case c.Bound != "" && c.Bound != "gaussian":
		return fmt.Errorf("dropsvm has no --bound")
	case c.Solver != "" && c.Solver != batch.SMO:
		return fmt.Errorf("solver %q: dropsvm needs smo", c.Solver)
	}
	return k.config.Check(*c)
}

// trained is a trained model with the results of training.
type trained struct {
	batch.Solution
	model      model.Model
	trainError *float64               // training error in percent; nil for regression
	numbers    *measure.NumbersReport // measures for regression
	linear     *batch.Fit             // result for a linear model; nil for a kernel machine
	vectors    int                    // number of support vectors of a kernel machine
}

// trainLinear runs batch.Train.
func (o *trainFlags) trainLinear(ctx context.Context, d *batch.Data, scaler *model.Linear) (*trained, error) {
	fit, err := batch.Train(ctx, d, o.config)
	if err != nil {
		return nil, err
	}
	t := &trained{Solution: fit.Solution, linear: fit}
	if !loss.IsRegression(o.config.Loss) {
		t.trainError = new(100 * fit.TrainError(d))
	} else {
		sums, err := fit.MeasureNumbers(d)
		if err != nil {
			return nil, err
		}
		l, err := loss.Parse(fit.Model.Loss)
		if err != nil {
			return nil, err
		}
		t.numbers = new(sums.Report(l))
	}
	if scaler != nil {
		fit.Model = fit.Model.WithScaler(scaler)
	}
	fit.Model = fit.Model.WithCovariance(o.presence.Covariance(fit.Model, d, o.covariance))
	fit.Model.Missing = o.presence.Missing(fit.Model, d, model.MissingPolicy(o.online.config.MissingPolicy))
	fit.Model.Dead = o.dead
	if fit.Model.Residual != nil {
		if r := o.presence.Residual(fit.Model, d); r != nil {
			fit.Model.Residual = r
		}
	}
	t.model = fit.Model
	return t, nil
}

// trainKernel runs svm.Train.
func (o *trainFlags) trainKernel(ctx context.Context, d *batch.Data, scaler *model.Linear) (*trained, error) {
	fit, err := svm.Train(ctx, d, o.config, o.kernel.config)
	if err != nil {
		return nil, err
	}
	if math.IsNaN(fit.Objective) {
		return nil, fmt.Errorf("the objective is not a number: rescale the features")
	}
	wrong := 100 * fit.TrainError(d)
	if scaler != nil {
		fit.Model = fit.Model.WithScaler(scaler)
	}
	fit.Model.Missing = o.presence.Missing(fit.Model, d, model.MissingPolicy(o.online.config.MissingPolicy))
	return &trained{Solution: fit.Solution, model: fit.Model, trainError: &wrong, vectors: fit.Vectors}, nil
}

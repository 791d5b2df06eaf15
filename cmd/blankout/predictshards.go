package main

// This file makes the command predict score examples with all shards of a group.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/stream/record"
)

// shardMeasures is the JSON output of predict for a group. Error is in percent. The measures are null without labels.
type shardMeasures struct {
	Examples int      `json:"examples"`
	Shards   int      `json:"shards"`
	Error    *float64 `json:"error,omitempty"`
	LogLoss  *float64 `json:"log_loss,omitempty"`
	MAE      *float64 `json:"mae,omitempty"`
	RMSE     *float64 `json:"rmse,omitempty"`
	Refused  int      `json:"refused"`
}

// predictWithShards is runPredict for a set of shards. Without --key the answers are the shards' means.
func (p *program) predictWithShards(ctx context.Context, o *predictFlags, m *served.Model) error {
	if o.remove > 0 || o.groups > 0 || o.explain.form != "" || filepath.Ext(o.out) == ".csv" {
		return usageError{errors.New("--delete, --delete-groups, --explain and .csv are of one model: name one shard, as in -m DIRECTORY/shard-0")}
	}
	switch {
	case o.key != "" && !m.Keyed():
		return usageError{fmt.Errorf("--key %s: checkpoints do not contain how a group divides keys, and how it mixes its answers: name the group's snapshots, as in -m kafka:///GROUP-snapshots, or leave out --key for the mean of the shards", o.key)}
	case o.key != "":
		o.data.record.ID = o.key // only the key of the event is used: the shards decode its value again
	}
	schema := m.Record.Schema()
	schema.Target = m.Target()
	o.data.record.KeepValue, o.data.record.Unlabeled = true, o.unlabeled
	x := shardAnswers{model: m, keyed: o.key != "", refuse: o.unknown == "refuse"}
	err := p.eachAnswer(ctx, o, m, nil, schema, &x.measures.Examples, func(in *packedBatch, e *event.Example, write *answers, place func() string) error {
		return x.add(ctx, e, in.Schema, write, place)
	})
	if err != nil {
		return err
	}
	x.finish(o.data.tally.refused)
	return p.result(x.measures)
}

// shardAnswers writes and measures the answers of a set of shards.
type shardAnswers struct {
	model    *served.Model
	keyed    bool // answer with the shard of an example's key
	refuse   bool // refuse examples of which no shard has seen a feature
	sums     measure.Classes
	squares  float64 // weighted sum of squared errors, for regression
	measures shardMeasures
}

// add answers an example of a Schema. The function place is that of answers.add.
func (x *shardAnswers) add(ctx context.Context, e *event.Example, s *event.Schema, write *answers, place func() string) error {
	r := record.Record{Value: e.Value, Time: e.Time}
	if x.keyed {
		r.Key = e.Key
	}
	answer, err := x.model.PredictRecord(ctx, r, 0)
	if err == nil && answer.OnlyUnseen && x.refuse {
		err = x.model.UnseenError(answer.Unseen)
	}
	if err != nil {
		return unusable{err}
	}
	x.measures.Examples++
	x.measures.Shards, answer.Version = answer.Shards, 0
	switch {
	case e.Label == event.Unlabeled:
	case answer.Value != nil:
		off := e.Target - *answer.Value
		x.sums.Add(true, e.Weight, math.Abs(off), 1)
		x.squares += e.Weight * off * off
	default:
		class := s.Classes[e.Label]
		x.sums.Add(answer.Class == class, e.Weight, measure.LogLoss(answer.Probabilities[class]), 1)
	}
	return write.addMean(e, &answer, place)
}

// finish computes the measures.
func (x *shardAnswers) finish(refused int) {
	x.measures.Refused = refused
	if loss.IsRegression(x.model.Loss) {
		x.measures.MAE, x.measures.RMSE = measure.Defined(x.sums.MeanLogLoss()), measure.Defined(math.Sqrt(x.squares/x.sums.Weight))
		return
	}
	x.measures.Error, x.measures.LogLoss = measure.Defined(100*x.sums.Error()), measure.Defined(x.sums.MeanLogLoss())
}

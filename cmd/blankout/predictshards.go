package main

// This file makes the command predict score examples with all shards of a group.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"

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
	out, err := p.create(p.predictions(o))
	if err != nil {
		return err
	}
	x := shardAnswers{model: m, keyed: o.key != "", refuse: o.unknown == "refuse"}
	x.write, err = newAnswers(out, o.out, m, nil, schema, &o.data, o.explain)
	err = errors.Join(err, o.data.eachPlaced(ctx, o.data.paths, schema, func(in *packedBatch, i int, place func() string) error {
		if o.maxEvents > 0 && x.measures.Examples == o.maxEvents {
			return errEnough
		}
		return x.add(ctx, &in.Examples[i], in.Schema, place)
	}))
	if err = errors.Join(err, flushed(x.write.csv), out.Close()); err != nil {
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
	write    *answers
	sums     measure.Classes
	squares  float64 // weighted sum of squared errors, for regression
	measures shardMeasures
}

// add answers an example of a Schema. The function place is that of answers.add.
func (x *shardAnswers) add(ctx context.Context, e *event.Example, s *event.Schema, place func() string) error {
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
	switch {
	case x.write.json != nil:
		return x.write.json.Encode(answer)
	case x.write.csv != nil:
		return x.write.csv.Write(rowOf(e, &answer, place))
	case answer.Value != nil:
		_, err = fmt.Fprintln(x.write.out, *answer.Value)
	default:
		_, err = fmt.Fprintln(x.write.out, event.Printable(answer.Class), answer.Score)
	}
	return err
}

// rowOf returns the row of standard output, as answers.rowOf does for one model.
func rowOf(e *event.Example, a *served.Prediction, place func() string) []string {
	number := func(x *float64) string {
		if x == nil {
			return ""
		}
		return strconv.FormatFloat(*x, 'g', -1, 64)
	}
	id := cmp.Or(a.ID, string(e.Key), place())
	if a.Value != nil {
		return []string{id, number(a.Value), number(a.Low), number(a.High)}
	}
	return []string{id, a.Class, number(&a.Probability)}
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

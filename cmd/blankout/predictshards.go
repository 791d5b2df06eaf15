package main

// This file makes the command predict score examples with all shards of a group.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/served"
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

// predictWithShards is runPredict for a set of shards. Files have no keys, so the answers are the shards' means.
func (p *program) predictWithShards(ctx context.Context, o *predictFlags, m *served.Model) error {
	if o.remove > 0 || o.groups > 0 || o.explain.form != "" || filepath.Ext(o.out) == ".csv" {
		return usageError{errors.New("--delete, --delete-groups, --explain and .csv are of one model: name one shard, as in -m DIRECTORY/shard-0")}
	}
	schema := m.Record.Schema()
	schema.Target = m.Target()
	o.data.record.KeepValue, o.data.record.Unlabeled = true, o.unlabeled
	out, err := p.create(o.out)
	if err != nil {
		return err
	}
	regression := loss.IsRegression(m.Loss)
	lines := json.NewEncoder(out)
	text := filepath.Ext(o.out) != ".jsonl" && filepath.Ext(o.out) != ".ndjson"
	var sums measure.Classes
	squares := 0.0
	result := shardMeasures{}
	err = o.data.eachPlaced(ctx, o.data.paths, schema, func(in *packedBatch, i int, _ func() string) error {
		if o.maxEvents > 0 && result.Examples == o.maxEvents {
			return errEnough
		}
		e := &in.Examples[i]
		answer, err := m.PredictRecord(ctx, record.Record{Value: e.Value, Time: e.Time}, 0)
		if err == nil && answer.OnlyUnseen && o.unknown == "refuse" {
			err = m.UnseenError(answer.Unseen)
		}
		if err != nil {
			return unusable{err}
		}
		result.Examples++
		result.Shards, answer.Version = answer.Shards, 0
		switch {
		case e.Label == event.Unlabeled:
		case regression:
			off := e.Target - *answer.Value
			sums.Add(true, e.Weight, math.Abs(off), 1)
			squares += e.Weight * off * off
		default:
			class := in.Schema.Classes[e.Label]
			sums.Add(answer.Class == class, e.Weight, measure.LogLoss(answer.Probabilities[class]), 1)
		}
		switch {
		case o.out == "":
			return nil
		case !text:
			return lines.Encode(answer)
		case regression:
			_, err = fmt.Fprintln(out, *answer.Value)
			return err
		}
		_, err = fmt.Fprintln(out, printable([]string{answer.Class})[0], answer.Score)
		return err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	result.Refused = o.data.tally.refused
	if error, mean := 100*sums.Error(), sums.MeanLogLoss(); regression {
		rmse := math.Sqrt(squares / sums.Weight)
		result.MAE, result.RMSE = measure.Defined(mean), measure.Defined(rmse)
	} else {
		result.Error, result.LogLoss = measure.Defined(error), measure.Defined(mean)
	}
	if !p.quiet {
		if err := printText(p.stderr, result, textRows); err != nil {
			return err
		}
	}
	if o.json {
		return json.NewEncoder(p.stdout).Encode(result)
	}
	return nil
}

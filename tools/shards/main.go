// Command shards compares the answers of a stream's shards with one learner of the whole stream.
//
//	go run ./tools/shards -d elec2/stream.svm.gz -d sea/stream.svm.gz     records go to shards at random
//	go run ./tools/shards -key 72-355 -d airlines_50k/stream.svm.gz        records with the same first column of 72 to 355 go to one shard
//	go run ./tools/shards -users 50 -users 400                            every user's records go to one shard
//
// Every event is answered before it is learned: by one learner, by the own shard alone, by the mean of all shards, and by
// the mixture that a group serves (shards.Judge). The models of the other shards are as old as -every events.
//
// The events of -users have a user with an effect e, five numbers x, and the logit x'g + e. The numbers in x and g are
// standard normals. e is normal with the deviation 1.5.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"blankout/app/served"
	"blankout/app/shards"
	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online"
	"blankout/stream"
	"blankout/stream/record"
)

func main() {
	var c comparison
	var files, users []string
	flag.Func("d", "`FILE` of events; repeat for several", func(text string) error { files = append(files, text); return nil })
	flag.Func("users", "generate 24,000 events of `N` users; repeat for several", func(text string) error { users = append(users, text); return nil })
	flag.IntVar(&c.every, "every", 500, "learned events of all shards between two snapshots")
	flag.IntVar(&c.most, "max-events", 100_000, "largest number of events of a file")
	flag.BoolVar(&c.shuffle, "shuffle", false, "shuffle the events of files, so that nothing drifts")
	flag.Func("key", "`FROM-TO`: the key of a record in a file is its first column of this range", func(text string) (err error) {
		from, to, _ := strings.Cut(text, "-")
		first, err := strconv.ParseUint(from, 10, 32)
		last, err2 := strconv.ParseUint(to, 10, 32)
		c.keyFrom, c.keyTo = uint32(first), uint32(last)
		return errors.Join(err, err2)
	})
	flag.Parse()
	if err := c.run(context.Background(), os.Stdout, files, users); err != nil {
		fmt.Fprintln(os.Stderr, "shards:", err)
		os.Exit(1)
	}
}

// keyed is a record and its shard key.
type keyed struct {
	value []byte
	key   uint64
}

// comparison compares for several numbers of shards.
type comparison struct {
	every, most int
	shuffle     bool
	// The key of a record in a file is its first column of keyFrom to keyTo. If keyTo is 0, keys are random.
	keyFrom, keyTo uint32
}

// run compares on files and on generated users.
func (c *comparison) run(ctx context.Context, out io.Writer, files, users []string) error {
	fmt.Fprintln(out, "| stream | shards | one learner | own shard | mean | answer | in sets | own weight |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|")
	for _, file := range files {
		records, config, err := c.read(ctx, file)
		if err != nil {
			return err
		}
		if err := c.compare(ctx, out, filepath.Base(filepath.Dir(file)), records, config); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	for _, text := range users {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-users %q: want a number", text)
		}
		config := record.DefaultConfig()
		config.Format = "json"
		if err := c.compare(ctx, out, text+" users", ofUsers(n, 24_000), config); err != nil {
			return err
		}
	}
	return nil
}

// read returns the records of a file with their keys, and how to decode them.
func (c *comparison) read(ctx context.Context, file string) (records []keyed, config record.Config, err error) {
	config = record.DefaultConfig()
	config.KeepValue = true
	source, err := stream.OpenFileContext(ctx, file, config, config.Schema())
	if err != nil {
		return nil, config, err
	}
	defer source.Close()
	r := rand.New(rand.NewPCG(1, 2))
	var b event.Batch
	for len(records) < c.most {
		if err := source.Next(ctx, &b); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, config, err
		}
		for i := range b.Examples {
			if e := &b.Examples[i]; e.Refused == nil && len(records) < c.most {
				records = append(records, keyed{slices.Clone(e.Value), c.keyOf(e, r)})
			}
		}
	}
	if c.shuffle {
		r.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	}
	return records, source.Record(), nil
}

// keyOf returns the key of an event of a file.
func (c *comparison) keyOf(e *event.Example, r *rand.Rand) uint64 {
	if c.keyTo > 0 {
		for _, column := range e.Features.Index {
			if c.keyFrom <= column && column <= c.keyTo {
				return uint64(column)
			}
		}
	}
	return r.Uint64()
}

// ofUsers returns events of a number of users, whose number is the key.
func ofUsers(users, n int) (records []keyed) {
	r := rand.New(rand.NewPCG(3, 4))
	weights, effects := make([]float64, 5), make([]float64, users)
	for i := range weights {
		weights[i] = r.NormFloat64()
	}
	for i := range effects {
		effects[i] = 1.5 * r.NormFloat64()
	}
	for range n {
		user := r.IntN(users)
		logit, value := effects[user], fmt.Appendf(nil, `{"user":"u%d"`, user)
		for i, w := range weights {
			x := r.NormFloat64()
			logit += x * w
			value = fmt.Appendf(value, `,"x%d":%.4f`, i, x)
		}
		value = fmt.Appendf(value, `,"label":"%v"}`, r.Float64() < 1/(1+math.Exp(-logit)))
		records = append(records, keyed{value, uint64(user)})
	}
	return records
}

// compare writes a row for each number of shards.
func (c *comparison) compare(ctx context.Context, out io.Writer, name string, records []keyed, config record.Config) error {
	one, err := c.learn(ctx, records, config, 1)
	if err != nil {
		return err
	}
	for _, n := range []int{2, 4, 8} {
		of, err := c.learn(ctx, records, config, n)
		if err != nil {
			return err
		}
		row := func(m measure.Classes) string { return fmt.Sprintf("%.2f / %.4f", 100*m.Error(), m.MeanLogLoss()) }
		fmt.Fprintf(out, "| %s | %d | %s | %s | %s | %s | %.1f %% | %.2f |\n", name, n, row(one.own), row(of.own), row(of.mean), row(of.answer), 100*of.covered/of.answer.Weight, of.weight)
	}
	return nil
}

// result has the measures of the answers to all events.
type result struct {
	own, mean, answer measure.Classes
	covered           float64 // weight of the events whose set had the label
	weight            float64 // mean weight of the own score at the end
}

// shard is a learner with its decoder.
type shard struct {
	*online.Learner
	decoder record.Decoder
	schema  *event.Schema
	judge   *shards.Judge
	example event.Example
}

// learn learns the records in n shards and measures the answers.
func (c *comparison) learn(ctx context.Context, records []keyed, config record.Config, n int) (out result, err error) {
	all, models := make([]shard, n), make([]*served.Model, n)
	defaults := online.DefaultConfig()
	for k := range all {
		x := &all[k]
		if x.schema = config.Schema(); len(config.Classes) == 0 {
			online.TakeMoreClasses(x.schema)
		}
		config.Seed, config.KeepValue = uint64(k+1), true
		if x.decoder, err = record.NewDecoder(config, x.schema); err != nil {
			return out, err
		}
		if x.Learner, err = online.New(defaults.Among(false, false), x.schema); err != nil {
			return out, err
		}
		x.judge = shards.NewJudge(served.ShardInfo{Number: k, Shards: n, Coverage: defaults.Coverage}, nil)
		x.judge.Others, x.judge.Schema = func() []*served.Model { return models }, x.Learner.Schema
		x.judge.Drift = func() uint64 { return x.Learner.Alarms(math.MaxUint64).Drift.Event }
	}
	for i, r := range records {
		k := int(r.key % uint64(n))
		if err := all[k].answer(ctx, &out, r, int64(i), models, k); err != nil {
			return out, err
		}
		if (i+1)%c.every == 0 {
			for k := range all {
				read := config
				read.Seed = uint64(k + 1)
				models[k] = served.New(all[k].Snapshot().Model().Compact(), read)
			}
		}
	}
	for k := range all {
		out.weight += all[k].judge.Info().OwnWeight / float64(n)
	}
	return out, nil
}

// answer measures the answers to a record and learns it.
func (x *shard) answer(ctx context.Context, out *result, r keyed, offset int64, models []*served.Model, k int) error {
	e := &x.example
	if err := x.decoder.Decode(ctx, record.Record{Value: r.value, Offset: offset}, e); err != nil {
		return err
	}
	if e.Refused != nil {
		return nil
	}
	e.Fingerprint = record.Fingerprint(offset, nil, r.value)
	told := x.Predict(e)
	p := told.Alone()
	classes := x.Schema().Classes
	own := served.Opinion{Mixed: served.Mixed{Classes: classes, Chances: p.Decision.Probabilities(p.Scores, make([]float64, max(2, len(p.Scores))))}, Events: float64(p.Learned), Known: true}
	own.Classes = own.Classes[:min(len(own.Classes), len(own.Chances))]
	opinions := []served.Opinion{own}
	for j, m := range models {
		if j == k || m == nil || m.Events == 0 {
			continue
		}
		o, err := m.Opine(ctx, record.Record{Value: r.value})
		if err != nil && !served.IsRefused(err) {
			return err
		}
		if err == nil {
			opinions = append(opinions, o)
		}
	}
	if len(own.Classes) > 0 {
		mixture, head, info := served.NewMixture(opinions, 0), &model.Head{Schema: x.Schema()}, x.judge.Info()
		for i, to := range []*measure.Classes{&out.own, &out.mean, &out.answer} {
			mixed := mixture.At([]float64{1, 0, info.OwnWeight}[i])
			judged := mixed.Judge(head, classes[e.Label], 0)
			to.Add(judged.Right, e.Weight, judged.Loss, 1)
			if to == &out.answer && (judged.Right || judged.Nonconformity <= info.Own.Limit(info.Coverage)) {
				out.covered += e.Weight
			}
		}
	}
	if err := x.judge.Observe(e, &p); err != nil {
		return err
	}
	x.Learn(e, nil)
	return nil
}

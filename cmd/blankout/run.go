package main

// The command run learns from a stream. This file has its flags and its final output.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/config"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/online"
	"blankout/online/health"
	"blankout/online/optimizers"
	"blankout/serve"
	"blankout/stream/record"
)

// runFlags are the flags of run that are not configuration settings.
type runFlags struct {
	data      string
	labels    string
	reset     bool
	from      string
	maxEvents uint64
	untilEnd  bool
	serve     bool // serve HTTP during a run on a file (-d)
	serveOn   bool // serve HTTP after the end
	refused   string
	answers   bool
	predict   bool
	shard     *served.ShardInfo // the shard to learn; nil for all partitions
}

// serves reports whether the run serves HTTP. A run on a file serves HTTP only on request, so that a second run does
// not fail because the port is in use.
func (o *runFlags) serves() bool { return o.data == "" || o.serve || o.serveOn }

func (p *program) runCommand() *cobra.Command {
	var o runFlags
	var settings configFlags
	c := &cobra.Command{
		Use:   "run [FILE]",
		Short: "Learn from a topic, save checkpoints and serve the model",
		Long: `run learns from the topics of the configuration, event by event, and serves the model
until it is stopped. It resumes from its newest checkpoint. Without -f it reads
blankout.toml in this directory, if there is one.

On SIGTERM, SIGINT or SIGHUP, run learns the events it has read, saves and exits with 0.

With FILE or -d, run learns from a file or standard input until its end. The next run continues
where the file has grown. Add --serve to serve the model meanwhile.
kafka://HOST:PORT/TOPIC?partitions=0,1&from=OFFSET&to=OFFSET is the current content of a
topic, or a part of it. If run learned no record or refused more than half, it keeps the
older checkpoint and exits with 3, or with 2 if no record had the label's field.

With --answers, run writes a line of JSON for each record of -d before it learns it: the
predicted class and probabilities, the value for regression, or the reason of a refusal.

With --labels, or topics in [labels], labels are delayed. An event is scored when it arrives
and waits for the label of its id. Times are those of the log, or of record.time in files.

With --group or group.name, run is a member of a group that divides the partitions into
shards. Each shard is a learner of its own with checkpoints in DIRECTORY/shard-K; members
share this directory, on a shared disk or in s3://. A member learns the shards that Kafka
assigns to it, and answers with all shards, whose models are in the topic NAME-snapshots.

With predict.topic, run also scores the events of that topic, labeled or not, and writes
predictions to predict.output. With --predict-only it only predicts, with a model that it
follows over HTTP or from snapshots. Without predict.topic it then answers requests.`,
		Example: "  blankout run events.csv --label fraud\n" +
			"  blankout run -f blankout.toml\n" +
			"  blankout run -f blankout.toml --until-end --max-events 1000\n" +
			"  blankout run -f blankout.toml -d events.jsonl --reset --json\n" +
			"  blankout run -f blankout.toml -d events.jsonl --keep-serving\n" +
			"  blankout run -d events.jsonl --labels labels.jsonl --id order --set record.time=at\n" +
			"  blankout run -f blankout.toml --group fraud\n" +
			"  blankout run -f blankout.toml -d - --answers\n" +
			"  blankout run -f predict.toml --predict-only",
		Args: fileArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.learn(c, o, &settings) },
	}
	settings.addHere(c)
	f := c.Flags()
	f.StringVarP(&o.data, "data", "d", "", "learn from `FILE` instead of topics; see blankout train --help")
	f.StringVar(&o.labels, "labels", "", "`FILE` of delayed labels for the events of -d")
	f.String("id", "", "`FIELD` that joins events and labels [record.id, labels.id]")
	f.BoolVar(&o.reset, "reset", false, "start from nothing; move existing checkpoints to set-aside-N")
	f.StringVar(&o.from, "from", "", "resume from this `CHECKPOINT` instead of the newest")
	f.Uint64Var(&o.maxEvents, "max-events", 0, "stop after `N` records")
	f.BoolVar(&o.untilEnd, "until-end", false, "stop at the current end of the topic")
	f.BoolVar(&o.serve, "serve", false, "with -d: serve the page, metrics and the model while learning")
	f.BoolVar(&o.serveOn, "keep-serving", false, "as --serve, and continue after the last event until a signal")
	f.StringVar(&o.refused, "refused", "fail", "if no record was learned, or more than half were refused: fail or skip\nfail saves no last checkpoint and exits with 3")
	f.String("brokers", "", "`HOST:PORT,…` [kafka.brokers]")
	f.String("topic", "", "`TOPIC,…` [kafka.topics]")
	f.String("group", "", "learn shards as a member of group `NAME` [group.name]")
	for _, l := range settingFlags {
		first, more, _ := strings.Cut(l.usage, "\n")
		f.String(l.name, "", strings.TrimSuffix(first+" ["+l.key+"]\n"+more, "\n"))
	}
	f.BoolVar(&o.predict, "predict-only", false, "do not learn: score predict.topic with the model of predict.model")
	f.BoolVar(&o.answers, "answers", false, "with -d: write the prediction of each event before learning it, a line each")
	p.addJSON(c)
	return c
}

// settingFlags are the flags of run that set a configuration key. They have the same meaning as in train.
var settingFlags = []struct{ name, key, usage string }{
	{"noise", "learner.noise", "`NOISE` to tolerate, such as auto or dropout:0.3\n" + valuesUsage(append(loss.NoiseNames(), "auto", loss.ObservedNoise))},
	{"expected-missing", "learner.expected_missing", "expect a fraction `D` of features declared missing\nfor undeclared loss see learner.silent_missing"},
	{"optimizer", "learner.optimizer", "`OPTIMIZER`\n" + valuesUsage(optimizers.Names())},
	{"format", "record.format", "`FORMAT` of the records"},
	{"label", "record.label", "`FIELD` that holds the class"},
}

// changed returns the settings whose flags were given, as KEY=VALUE. A flag may set several keys.
func changed(c *cobra.Command, settings map[string]string) (out []string) {
	for flag, keys := range settings {
		if f := c.Flags().Lookup(flag); f.Changed {
			for key := range strings.FieldsSeq(keys) {
				out = append(out, key+"="+f.Value.String())
			}
		}
	}
	return out
}

func (p *program) learn(c *cobra.Command, o runFlags, settings *configFlags) error {
	if o.reset && o.from != "" {
		return usageError{errors.New("--reset and --from exclude each other")}
	}
	flags := map[string]string{"brokers": "kafka.brokers", "topic": "kafka.topics", "group": "group.name", "id": "record.id labels.id"}
	for _, l := range settingFlags {
		flags[l.name] = l.key
	}
	settings.findHere()
	l, err := settings.load(changed(c, flags)...)
	if err != nil {
		return located{err}
	}
	if given := l.Given(); l.HTTP.Learn && !slices.ContainsFunc(given, func(key string) bool { return key == "kafka.topics" || key == "kafka.brokers" }) {
		l.Kafka.Topics = nil // ignore the default topics if events arrive over HTTP
	}
	if err := checkInbox(&l.Config, &o); err != nil {
		return usageError{err}
	}
	if l.Kafka.UntilEnd = o.untilEnd; o.untilEnd && l.Group.Name != "" {
		return usageError{errors.New("--until-end excludes --group: a group learns until its members are stopped")}
	}
	p.setLevel(l.Log.Level)
	if o.predict {
		return p.predictOnly(c.Context(), o, &l.Config)
	}
	if l.Group.Name != "" {
		return p.learnShards(c.Context(), o, &l.Config)
	}
	if !slices.Contains([]string{"fail", "skip"}, o.refused) {
		return usageError{fmt.Errorf("--refused %q: want fail or skip", o.refused)}
	}
	if (o.serve || o.serveOn) && l.HTTP.Address == "" {
		return usageError{errors.New("--serve and --keep-serving need http.address")}
	}
	if o.answers && (o.data == "" || p.json || joins(&l.Config, o)) {
		return usageError{errors.New("--answers needs -d, and excludes --json and delayed labels")}
	}
	screen := p.newScreen(10 * time.Second)
	log := p.logger(screen)
	if settings.file != "" {
		log.Info("configuration read", "file", settings.file)
	}
	s, err := openService(c.Context(), &l.Config, o, log)
	if err != nil && c.Context().Err() != nil {
		log.Info("stopped before the first event was learned", "while", err)
		return nil
	}
	if err != nil {
		return err
	}
	var look learning
	s.runner.Observe = func(s *run.Status) {
		switch {
		case !screen.due():
		case screen.terminal:
			screen.progress(progressText(look.look(s)))
		default:
			log.Info("learning", look.look(s)...)
		}
	}
	s.runner.Config.KeepServing = o.serveOn
	if o.answers {
		s.runner.Answer = newLineAnswers(p.stdout, s.runner.Schema, s.runner.Challengers.LeaderName, func(e *event.Example) (missing, stuck []string) { return s.runner.Learner.Lost(e) }).add
	}
	err = s.runner.Run(c.Context())
	if err == nil && o.serveOn && c.Context().Err() == nil {
		log.Info("the events have ended; serving the model until a signal", append(progressOf(s.runner.Status()), "address", l.HTTP.Address)...)
		<-c.Context().Done()
	}
	status := s.runner.Status()
	if screen.terminal {
		screen.done(progressText(progressOf(status)))
	}
	if err = errors.Join(err, s.Close()); err != nil {
		if is[*run.FruitlessError](err) {
			err = p.advised(c.Context(), err, &l.Config, o)
		}
		return err
	}
	stopped := append(progressOf(status), "checkpoint", status.Save.Name)
	if len(status.Warnings) > 0 {
		stopped = append(stopped, "warnings", status.Warnings)
	}
	log.Info("stopped", stopped...)
	return p.encode(summary(status, s.runner.Offsets))
}

// advised adds advice to the error of a run that learned almost no events.
func (p *program) advised(ctx context.Context, err error, c *config.Config, o runFlags) error {
	if !joins(c, o) {
		if advice := adviseOn(ctx, inputOf(c, o.data)); advice != "" {
			err = fmt.Errorf("%w\n%s", err, advice)
		}
	}
	fruitless, _ := errors.AsType[*run.FruitlessError](err)
	err = fmt.Errorf("%w\nif this is intended, give --refused skip", err)
	if fruitless.NoLabels() && !joins(c, o) && namesLabel(c.Record, o.data) {
		return usageError{err}
	}
	return err
}

// namesLabel reports whether a setting names the field of the label. In svmlight, VW and idx records the label has a
// fixed position.
func namesLabel(c record.Config, path string) bool {
	return !slices.Contains([]string{"svmlight", "vw", "idx"}, cmp.Or(record.FormatOf(path), c.Format))
}

// runSummary is the final JSON output of run. Errors are in percent.
type runSummary struct {
	Events   uint64 `json:"events"` // events of this run, without rejected ones
	Refused  uint64 `json:"refused"`
	Total    uint64 `json:"total_events"` // events of all runs of this learner
	Features int    `json:"features"`
	online.Summary
	// MAE and RMSE are for regression. The R2 is in Summary.
	MAE  *float64 `json:"mae,omitempty"`
	RMSE *float64 `json:"rmse,omitempty"`
	// Positive is the name of the positive class if there are two classes.
	Positive    string            `json:"positive,omitempty"`
	Seconds     float64           `json:"seconds"`
	Checkpoint  string            `json:"checkpoint"`
	Checkpoints uint64            `json:"checkpoints"`
	Offsets     event.Offsets     `json:"offsets"`
	RefusedBy   map[string]uint64 `json:"refused_by"`
	NotFinite   uint64            `json:"not_finite"` // number of values that were NaN or infinite; they count as missing
	HeldOut     uint64            `json:"held_out"`
	Validations uint64            `json:"validations"`
	// HoldoutError is the error on held-out events, predicted at arrival. For regression HoldoutMAE and HoldoutRMSE
	// replace it.
	HoldoutError *float64 `json:"holdout_error"`
	HoldoutMAE   *float64 `json:"holdout_mae,omitempty"`
	HoldoutRMSE  *float64 `json:"holdout_rmse,omitempty"`
	// Warnings are warnings about probable mistakes in the stream or its settings.
	Warnings []health.Warning `json:"warnings"`
	// Learners compares the learners of the stream with the leader, if there are several, as GET /v1/learners
	// does.
	Learners []serve.LearnerReport `json:"learners,omitempty"`
	*labelSummary
}

func summary(s *run.Status, offsets event.Offsets) runSummary {
	out := runSummary{
		Events: s.Learned + s.Unlabeled, Refused: s.Refused, Total: s.Learner.Events, Features: s.Learner.Features,
		Summary: s.Learner.Summary(), Positive: s.Learner.Positive,
		Seconds: time.Since(s.Started).Seconds(), Checkpoint: s.Save.Name, Checkpoints: s.Save.Saved,
		Offsets: offsets, RefusedBy: map[string]uint64{},
		NotFinite: s.NotFinite, HeldOut: s.HeldOut, HoldoutError: measure.Defined(100 * s.Holdout.Error()), HoldoutMAE: measure.Defined(s.HoldoutNumbers.MAE()), HoldoutRMSE: measure.Defined(s.HoldoutNumbers.RMSE()), Validations: s.Validation.Done,
		Warnings: append([]health.Warning{}, s.Warnings...), Learners: serve.LearnerReports(s),
	}
	if n := out.NumbersSummary; n != nil {
		out.MAE, out.RMSE = n.MAE, n.RMSE
	}
	out.labelSummary = summarizeLabels(s)
	for reason, n := range s.RefusedBy {
		out.RefusedBy[string(reason)] = n
	}
	return out
}

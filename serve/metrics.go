package serve

// This file has the table of Prometheus metrics.

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/app/shards"
	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/online/health"
	"blankout/serve/predict"
	"blankout/stream"
	"blankout/stream/registry"

	"github.com/prometheus/client_golang/prometheus"
)

// metric is one row of the table of metrics. Its values are computed during a scrape from data that the run publishes.
// So metrics take no time per event.
type metric struct {
	name   string // name with the prefix blankout_
	kind   prometheus.ValueType
	labels []string
	help   string
	read   func(v *view, emit func(value float64, labels ...string))
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// view is the data of one scrape.
type view struct {
	status     *run.Status
	learns     bool
	notReady   string
	partitions []run.PartitionStatus
	source     *stream.ConsumerStats // nil if the source is not a topic
	group      *shards.Status        // nil for a learner without a group
	registry   *registry.Client      // nil if records need no schema registry
	model      *served.Model         // published model; nil before the first
	predicting *predict.Stats        // nil if no topic is predicted
	places     []destinationView     // destinations of snapshots
	requests   requests              // counters of prediction requests
	sent       requests              // counters of requests for the model
	open       float64               // number of open HTTP connections
	version    string
}

// metrics is the table of all metrics. docs/reference.md is generated from it. No metric has a label for features, keys
// or events. Field labels exist only for the metricFields worst fields with an alarm. So the number of time series is
// small and bounded.
var metrics = slices.Concat(mainMetrics, fieldMetrics)

var mainMetrics = []metric{
	{"blankout_build_info", gauge, []string{"version", "go"}, "1, labeled with the version of the program and of Go.",
		func(v *view, emit func(float64, ...string)) { emit(1, v.version, runtime.Version()) }},
	{"blankout_ready", gauge, nil, "1 if events are being consumed, else 0 (/readyz gives the reason).",
		one(func(v *view) float64 {
			if v.notReady != "" {
				return 0
			}
			return 1
		})},
	{"blankout_events_total", counter, []string{"outcome"}, "Records counted by outcome: learned, unlabeled, held-out, refused, or passed (tombstones and repeated events).",
		func(v *view, emit func(float64, ...string)) {
			emit(float64(v.status.Learned), "learned")
			emit(float64(v.status.Unlabeled), "unlabeled")
			emit(float64(v.status.HeldOut), "held-out")
			passed := uint64(0)
			for reason, n := range v.status.RefusedBy {
				if !reason.Faulty() {
					passed += n
				}
			}
			emit(float64(v.status.Refused-passed), "refused")
			emit(float64(passed), "passed")
		}},
	{"blankout_refused_total", counter, []string{"reason"}, "Records refused or passed over, by reason.",
		byReason(func(v *view) map[event.Reason]uint64 { return v.status.RefusedBy })},
	{"blankout_dead_letter_failures_total", counter, nil, "Failed attempts to store dead letters; learning waits for them.",
		one(func(v *view) float64 { return float64(v.status.DeadLetterFailures) })},
	{"blankout_labels_pending_events", gauge, nil, "Events that wait for a delayed label ([labels]).",
		fromLabels(func(c *run.LabelCounts, emit func(float64, ...string)) { emit(float64(c.Pending)) })},
	{"blankout_labels_events_total", counter, []string{"outcome"}, "Events that no longer wait for a label, including before a restart: matched, timed-out, overflowed (labels.max_pending) or repeated (the id waited already).",
		fromLabels(func(c *run.LabelCounts, emit func(float64, ...string)) {
			emit(float64(c.Matched), "matched")
			emit(float64(c.TimedOut), "timed-out")
			emit(float64(c.Overflowed), "overflowed")
			emit(float64(c.RepeatedEvents), "repeated")
		})},
	{"blankout_labels_total", counter, []string{"outcome"}, "Labels that did not simply match a waiting event, including before a restart: early, corrected, repeated, late or unknown (early without an event).",
		fromLabels(func(c *run.LabelCounts, emit func(float64, ...string)) {
			emit(float64(c.Early), "early")
			emit(float64(c.Corrected), "corrected")
			emit(float64(c.Repeated), "repeated")
			emit(float64(c.Late), "late")
			emit(float64(c.Unmatched), "unmatched")
		})},
	{"blankout_labels_delay_seconds", gauge, []string{"quantile"}, "Delay of labels after their events: a quantile, or up to twice it.",
		fromLabels(func(c *run.LabelCounts, emit func(float64, ...string)) {
			for _, q := range []float64{0.5, 0.9, 0.99} {
				emit(c.Delay(q), strconv.FormatFloat(q, 'g', -1, 64))
			}
		})},
	{"blankout_challenger_leader", gauge, []string{"learner"}, "1 for the leader, else 0 ([[challenger]]).",
		byLearner(func(r *LearnerReport) *float64 { x := flag(r.Leader); return &x })},
	{"blankout_challenger_difference", gauge, []string{"learner", "span"}, "Loss of a learner minus the leader's on the same events: log-loss, squared error or deviance. Total, or of the latest whole window.",
		byLearnerSpan(func(r *LearnerReport) (total, window *float64) {
			if r.Compared == nil {
				return nil, nil
			}
			return r.Compared.Difference, r.Compared.Window.Difference
		})},
	{"blankout_challenger_difference_standard_error", gauge, []string{"learner", "span"}, "Standard error of blankout_challenger_difference, over blocks.",
		byLearnerSpan(func(r *LearnerReport) (total, window *float64) {
			if r.Compared == nil {
				return nil, nil
			}
			return r.Compared.StandardError, r.Compared.Window.StandardError
		})},
	{"blankout_fetch_retries_total", counter, []string{"cause"}, "Fetches that were retried, by cause.",
		fromSource(func(s *stream.ConsumerStats, emit func(float64, ...string)) {
			for cause, n := range s.Retries {
				emit(float64(n), cause)
			}
		})},
	{"blankout_partition_offset", gauge, []string{"topic", "partition"}, "Offset of the first record that has not been learned.",
		byPartition(func(p run.PartitionStatus) float64 { return float64(p.Next) })},
	{"blankout_partition_lag_records", gauge, []string{"topic", "partition"}, "Offsets between the learned position and the partition's end; in a group only the partitions of this member's shards.",
		byPartition(func(p run.PartitionStatus) float64 { return float64(p.Lag()) })},
	{"blankout_partition_records", gauge, []string{"topic", "partition"}, "Records counted, including before a restart.",
		byPartition(func(p run.PartitionStatus) float64 { return float64(p.Records) })},
	{"blankout_failing_partitions", gauge, nil, "Partitions that cannot be read now and are being retried.",
		fromSource(func(s *stream.ConsumerStats, emit func(float64, ...string)) {
			n := 0.0
			for _, p := range s.Partitions {
				if p.Failing != "" {
					n++
				}
			}
			emit(n)
		})},
	{"blankout_registry_waiting_seconds", gauge, nil, "Time that a record has been waiting for its schema; 0 if none waits.",
		fromRegistry(func(s registry.Status) float64 {
			if s.Since.IsZero() {
				return 0
			}
			return time.Since(s.Since).Seconds()
		})},
	{"blankout_registry_failures_total", counter, nil, "Requests that the schema registry did not answer with a schema.",
		fromRegistry(func(s registry.Status) float64 { return float64(s.Failures) })},
	{"blankout_newest_event_age_seconds", gauge, nil, "Age of the newest event of the last batch when it was learned.",
		one(func(v *view) float64 {
			if v.status.NewestTime.IsZero() {
				return math.NaN()
			}
			return v.status.NewestAge.Seconds()
		})},
	{"blankout_learner_events", gauge, nil, "Events learned, including before a restart.",
		func(v *view, emit func(float64, ...string)) {
			if !v.status.Started.IsZero() { // unknown before the start
				emit(float64(v.status.Learner.Events))
			}
		}},
	{"blankout_progressive_log_loss_nats", gauge, []string{"span"}, "Mean log-loss of events scored before they were learned: total or window, the recent ones.",
		bySpan(measure.Classes.MeanLogLoss)},
	{"blankout_progressive_error_ratio", gauge, []string{"span"}, "Fraction of events predicted wrongly before they were learned: total or window, the recent ones.",
		bySpan(measure.Classes.Error)},
	{"blankout_stale_error_ratio", gauge, []string{"age", "weights"}, "Fraction of sampled events predicted wrongly by weights about age events old, and by current weights.",
		func(v *view, emit func(float64, ...string)) {
			for _, r := range v.status.Learner.ByAge {
				if v.status.Learner.Numbers != nil || r.Error == nil {
					continue
				}
				age, weights := strconv.FormatUint(r.Age, 10), "aged"
				if r.Age == 0 {
					weights = "fresh"
				}
				if emit(*r.Error, age, weights); r.FreshError != nil {
					emit(*r.FreshError, age, "fresh")
				}
			}
		}},
	{"blankout_stale_excess_nats", gauge, []string{"age"}, "Log-loss of weights about age events old, minus that of the class frequencies.",
		func(v *view, emit func(float64, ...string)) {
			for _, r := range v.status.Learner.ByAge {
				if r.LogLoss != nil && r.ConstantLogLoss != nil {
					emit(*r.LogLoss-*r.ConstantLogLoss, strconv.FormatUint(r.Age, 10))
				}
			}
		}},
	{"blankout_progressive_auc_ratio", gauge, nil, "Area under the ROC curve of events scored before they were learned; two classes.",
		ofTwo((*measure.Binary).AUC)},
	{"blankout_progressive_precision_ratio", gauge, nil, "Fraction of events predicted positive (learner.threshold) that were positive; two classes.",
		ofTwo((*measure.Binary).Precision)},
	{"blankout_progressive_recall_ratio", gauge, nil, "Fraction of positive events that were predicted positive; two classes.",
		ofTwo((*measure.Binary).Recall)},
	{"blankout_progressive_absolute_error", gauge, []string{"span"}, "Mean absolute error of events predicted before they were learned, in the target's unit; regression.",
		ofNumbers((*measure.Numbers).MAE)},
	{"blankout_progressive_root_mean_squared_error", gauge, []string{"span"}, "Root mean squared error of events predicted before they were learned, in the target's unit; regression.",
		ofNumbers((*measure.Numbers).RMSE)},
	{"blankout_model_version", gauge, nil, "Version of the published model; it never decreases, also across restarts.",
		func(v *view, emit func(float64, ...string)) {
			if v.model != nil {
				emit(float64(v.model.Version))
			}
		}},
	{"blankout_model_age_seconds", gauge, nil, "Time since the model was published.",
		func(v *view, emit func(float64, ...string)) {
			if v.model != nil && !v.model.At.IsZero() {
				emit(time.Since(v.model.At).Seconds())
			}
		}},
	{"blankout_model_staleness_records", gauge, nil, "Records counted since the model was published.",
		func(v *view, emit func(float64, ...string)) {
			if v.model == nil || !v.learns {
				return
			}
			since := 0.0
			for _, p := range v.partitions {
				since += float64(p.Records)
			}
			for _, p := range v.model.Offsets {
				since -= float64(p.Records)
			}
			emit(max(since, 0))
		}},
	{"blankout_predict_requests_total", counter, []string{"outcome"}, "Prediction requests: answered, failed or turned-away (too many at once).",
		func(v *view, emit func(float64, ...string)) { v.requests.outcomes(emit) }},
	{"blankout_predict_requests_active", gauge, nil, "Prediction requests in progress or waiting.",
		one(func(v *view) float64 { return v.requests.active })},
	{"blankout_model_requests_total", counter, []string{"outcome"}, "Requests for the model, except by clients that had it: answered, failed or turned-away (too many at once).",
		func(v *view, emit func(float64, ...string)) { v.sent.outcomes(emit) }},
	{"blankout_model_requests_active", gauge, nil, "Requests for the model in progress or waiting.",
		one(func(v *view) float64 { return v.sent.active })},
	{"blankout_http_connections", gauge, nil, "Open connections to the HTTP server.", one(func(v *view) float64 { return v.open })},
	{"blankout_predictions_total", counter, []string{"outcome"}, "Predictions acknowledged by the topic of predictions: scored, or refused because the event cannot be used.",
		fromPredictor(func(s *predict.Stats, emit func(float64, ...string)) {
			emit(float64(s.Scored), "scored")
			emit(float64(s.Refused), "refused")
		})},
	{"blankout_prediction_ready", gauge, nil, "1 if the events of predict.topic are being scored, else 0 (/readyz gives the reason).",
		fromPredictor(func(s *predict.Stats, emit func(float64, ...string)) { emit(flag(s.LastError == "")) })},
	{"blankout_prediction_lag_records", gauge, []string{"topic", "partition"}, "Offsets between the position read for scoring and the partition's end.",
		fromPredictor(func(s *predict.Stats, emit func(float64, ...string)) {
			for _, p := range s.Partitions {
				emit(float64(p.Lag), p.Topic, strconv.Itoa(int(p.Partition)))
			}
		})},
	{"blankout_prediction_age_seconds", gauge, nil, "Age of the newest event of the last scored batch when its prediction was acknowledged.",
		fromPredictor(func(s *predict.Stats, emit func(float64, ...string)) {
			if s.Scored > 0 {
				emit(s.NewestAge.Seconds())
			}
		})},
	{"blankout_prediction_staleness_seconds", gauge, nil, "Age of that model at the time of the predictions.",
		fromPredictor(func(s *predict.Stats, emit func(float64, ...string)) {
			if !s.At.IsZero() {
				emit(s.Age.Seconds())
			}
		})},
	{"blankout_snapshots_total", counter, []string{"place", "outcome"}, "Snapshots for the topic, the file or the object: published or failed.",
		byPlace(func(p destinationView, emit func(float64, ...string)) {
			emit(float64(p.published), p.name, "published")
			emit(float64(p.failed), p.name, "failed")
		})},
	{"blankout_snapshot_age_seconds", gauge, []string{"place"}, "Time since the model of that snapshot was published to readers.",
		byPlace(func(p destinationView, emit func(float64, ...string)) {
			if !p.when.IsZero() {
				emit(time.Since(p.when).Seconds(), p.name)
			}
		})},
	{"blankout_coverage_ratio", gauge, []string{"missing"}, "Fraction of the latest sets or intervals that contained the label, by the missing fraction; the target is learner.coverage.",
		func(v *view, emit func(float64, ...string)) {
			for _, r := range v.status.Learner.Sets {
				emit(r.Recent, r.Range)
			}
		}},
	{"blankout_forecast_error_ratio", gauge, []string{"loss", "deleted"}, "Expected error if that fraction of the features goes missing, declared or silently.",
		func(v *view, emit func(float64, ...string)) {
			if v.status.Learner.Numbers != nil {
				return // these are root mean squared errors, not fractions
			}
			f := &v.status.Learner.Forecast
			if f.Level == "" {
				return // the learner has learned nothing
			}
			for _, p := range f.Declared {
				emit(p.Error, "declared", strconv.FormatFloat(p.Missing, 'g', -1, 64))
			}
			for _, p := range f.Silent {
				emit(p.Error, "silent", strconv.FormatFloat(p.Missing, 'g', -1, 64))
			}
		}},
	{"blankout_drift_alarms_total", counter, nil, "Alarms of the drift detector.",
		one(func(v *view) float64 { return float64(v.status.DriftAlarms) })},
	{"blankout_warning", gauge, []string{"kind"}, "1 while a warning of this kind is in force (docs/operate.md lists the kinds).",
		func(v *view, emit func(float64, ...string)) {
			for _, kind := range health.WarningKinds {
				emit(flag(slices.ContainsFunc(v.status.Warnings, func(w health.Warning) bool { return w.Kind == kind })), kind)
			}
		}},
	{"blankout_checkpoints_total", counter, []string{"outcome"}, "Checkpoints: saved or failed.",
		func(v *view, emit func(float64, ...string)) {
			emit(float64(v.status.Save.Saved), "saved")
			emit(float64(v.status.Save.Failed), "failed")
		}},
	{"blankout_checkpoint_last_seconds", gauge, nil, "Time the last checkpoint took.",
		one(func(v *view) float64 { return v.status.Save.Took.Seconds() })},
	{"blankout_checkpoint_pause_last_seconds", gauge, nil, "Time that learning paused for the last checkpoint.",
		one(func(v *view) float64 { return v.status.Save.Pause.Seconds() })},
	{"blankout_checkpoint_timestamp_seconds", gauge, nil, "Unix time of the last saved checkpoint.",
		one(func(v *view) float64 { return unix(v.status.Save.At) })},
	{"blankout_commit_failures_total", counter, nil, "Failed offset commits; only lag displays are affected.",
		one(func(v *view) float64 { return float64(v.status.Save.CommitFailures) })},
	{"blankout_holdout_error_ratio", gauge, nil, "Fraction of held-out events since the start that were predicted wrongly.",
		one(func(v *view) float64 { return v.status.Holdout.Error() })},
	{"blankout_holdout_root_mean_squared_error", gauge, nil, "Root mean squared error of held-out events, predicted on arrival, in the target's unit; regression.",
		func(v *view, emit func(float64, ...string)) {
			if v.status.Learner.Numbers != nil {
				emit(v.status.HoldoutNumbers.RMSE())
			}
		}},
	{"blankout_validations_total", counter, []string{"outcome"}, "Validations against the exact solution: done or failed.",
		func(v *view, emit func(float64, ...string)) {
			emit(float64(v.status.Validation.Done), "done")
			emit(float64(v.status.Validation.Failed), "failed")
		}},
	{"blankout_validation_alarm", gauge, nil, "1 if the last validation found the live weights far from the exact ones.",
		one(func(v *view) float64 { return flag(v.status.Validation.Alarm) })},
	{"blankout_validation_gap_ratio", gauge, nil, "Live objective minus exact objective, relative to the exact one, at the last validation.",
		ofLast(func(r *batch.Validation, emit func(float64, ...string)) { emit(gaugeOf(r.RelativeGap)) })},
	{"blankout_validation_error_ratio", gauge, []string{"side"}, "Fraction of the measured events predicted wrongly at the last validation: live or exact.",
		ofLast(func(r *batch.Validation, emit func(float64, ...string)) {
			emit(gaugeOf(r.Live.Error)/100, "live")
			emit(gaugeOf(r.Exact.Error)/100, "exact")
		})},
	{"blankout_group_members", gauge, []string{"state"}, "Members of the group: learning, or standby without a shard.",
		func(v *view, emit func(float64, ...string)) {
			if v.group != nil {
				emit(float64(v.group.Members-v.group.Standby), "learning")
				emit(float64(v.group.Standby), "standby")
			}
		}},
	{"blankout_group_generation", gauge, nil, "Generation of this member's consumer group.",
		func(v *view, emit func(float64, ...string)) {
			if v.group != nil {
				emit(float64(v.group.Generation))
			}
		}},
	{"blankout_shard_learning", gauge, []string{"shard"}, "Shards of this member: 1 if the shard is learned, 0 if it waits.",
		byShard(func(s *shards.ShardStatus, emit func(float64)) {
			if s.Own {
				emit(flag(s.NotReady == ""))
			}
		})},
	{"blankout_shard_lag_records", gauge, []string{"shard"}, "Records that this member's shards have not learned yet.",
		byShard(func(s *shards.ShardStatus, emit func(float64)) {
			if s.Own {
				emit(float64(s.Lag))
			}
		})},
	{"blankout_shard_events", gauge, []string{"shard"}, "Events in the newest model of each shard of the group that this member has.",
		byShard(func(s *shards.ShardStatus, emit func(float64)) { emit(float64(s.Events)) })},
	{"blankout_shard_model_age_seconds", gauge, []string{"shard"}, "Age of the newest model of each shard of the group that this member has.",
		byShard(func(s *shards.ShardStatus, emit func(float64)) {
			if !s.At.IsZero() {
				emit(time.Since(s.At).Seconds())
			}
		})},
	{"blankout_shard_damaged_models_total", counter, []string{"shard"}, "Published models of each shard that this member could not read.",
		byShard(func(s *shards.ShardStatus, emit func(float64)) { emit(float64(s.Damaged)) })},
	{"blankout_shard_error_ratio", gauge, []string{"shard"}, "Fraction of a shard's events that the group's answers predict wrongly.",
		byShard(func(s *shards.ShardStatus, emit func(float64)) {
			if s.Error != nil {
				emit(*s.Error / 100)
			}
		})},
	{"blankout_shard_own_weight_ratio", gauge, []string{"shard"}, "Weight of a shard's own score in its answers; the mean has the rest.",
		byShard(func(s *shards.ShardStatus, emit func(float64)) { emit(s.OwnWeight) })},
}

// flag returns 1 for true and 0 for false.
func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// gaugeOf returns *x, or NaN for nil.
func gaugeOf(x *float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return *x
}

// ofLast returns a reader of metrics that calls read with the last validation, if there is one.
func ofLast(read func(*batch.Validation, func(float64, ...string))) func(*view, func(float64, ...string)) {
	return func(v *view, emit func(float64, ...string)) {
		if v.status.Validation.Last != nil {
			read(v.status.Validation.Last, emit)
		}
	}
}

// ofNumbers returns a reader of metrics that emits a regression measure by span (total or recent).
func ofNumbers(read func(*measure.Numbers) float64) func(*view, func(float64, ...string)) {
	return func(v *view, emit func(float64, ...string)) {
		if n := v.status.Learner.Numbers; n != nil {
			emit(read(&n.Total), "total")
			emit(read(&n.Window), "window")
		}
	}
}

// ofTwo returns a reader of metrics that emits a measure for two classes.
func ofTwo(read func(*measure.Binary) float64) func(*view, func(float64, ...string)) {
	return func(v *view, emit func(float64, ...string)) {
		if b := v.status.Learner.Binary; b != nil {
			emit(read(b))
		}
	}
}

func fromPredictor(read func(*predict.Stats, func(float64, ...string))) func(*view, func(float64, ...string)) {
	return func(v *view, emit func(float64, ...string)) {
		if v.predicting != nil {
			read(v.predicting, emit)
		}
	}
}

func byPlace(read func(destinationView, func(float64, ...string))) func(*view, func(float64, ...string)) {
	return func(v *view, emit func(float64, ...string)) {
		for _, p := range v.places {
			read(p, emit)
		}
	}
}

// byLearner returns a reader of metrics that emits a number for each learner, if there are several learners.
func byLearner(read func(*LearnerReport) *float64) func(*view, func(float64, ...string)) {
	return func(v *view, emit func(float64, ...string)) {
		for _, r := range LearnerReports(v.status) {
			if x := read(&r); x != nil {
				emit(*x, r.Name)
			}
		}
	}
}

// byLearnerSpan returns a reader of metrics that emits two numbers for each learner, for the total and the window, if
// there are several learners.
func byLearnerSpan(read func(*LearnerReport) (total, window *float64)) func(*view, func(float64, ...string)) {
	return func(v *view, emit func(float64, ...string)) {
		for _, r := range LearnerReports(v.status) {
			total, window := read(&r)
			if total != nil {
				emit(*total, r.Name, "total")
			}
			if window != nil {
				emit(*window, r.Name, "window")
			}
		}
	}
}

func one(read func(*view) float64) func(*view, func(float64, ...string)) {
	return func(v *view, emit func(float64, ...string)) { emit(read(v)) }
}

func byReason(read func(*view) map[event.Reason]uint64) func(*view, func(float64, ...string)) {
	return func(v *view, emit func(float64, ...string)) {
		for reason, n := range read(v) {
			emit(float64(n), string(reason))
		}
	}
}

func fromSource(read func(*stream.ConsumerStats, func(float64, ...string))) func(*view, func(float64, ...string)) {
	return func(v *view, emit func(float64, ...string)) {
		if v.source != nil {
			read(v.source, emit)
		}
	}
}

func fromRegistry(read func(registry.Status) float64) func(*view, func(float64, ...string)) {
	return func(v *view, emit func(float64, ...string)) {
		if v.registry != nil {
			emit(read(v.registry.Status()))
		}
	}
}

// byShard returns a reader of metrics with a value for each shard.
func byShard(read func(s *shards.ShardStatus, emit func(float64))) func(*view, func(float64, ...string)) {
	return func(v *view, emit func(float64, ...string)) {
		if v.group == nil {
			return
		}
		for i := range v.group.Shards {
			s := &v.group.Shards[i]
			read(s, func(value float64) { emit(value, strconv.Itoa(s.Number)) })
		}
	}
}

// byPartition returns a reader of metrics that emits a number for each partition. Unknown numbers are negative. It
// skips them, because a sum over partitions must not become NaN.
func byPartition(read func(run.PartitionStatus) float64) func(*view, func(float64, ...string)) {
	return func(v *view, emit func(float64, ...string)) {
		for _, p := range v.partitions {
			if x := read(p); x >= 0 {
				emit(x, p.Topic, strconv.Itoa(int(p.Partition)))
			}
		}
	}
}

// fromLabels returns a reader of metrics about delayed labels. It emits nothing if labels are not delayed.
func fromLabels(f func(c *run.LabelCounts, emit func(float64, ...string))) func(*view, func(float64, ...string)) {
	return func(v *view, emit func(float64, ...string)) {
		if v.status.Labels != nil {
			f(v.status.Labels, emit)
		}
	}
}

func bySpan(read func(measure.Classes) float64) func(*view, func(float64, ...string)) {
	return func(v *view, emit func(float64, ...string)) {
		emit(read(v.status.Learner.Total), "total")
		emit(read(v.status.Learner.Window), "window")
	}
}

// unix returns a time in seconds since 1970, or NaN for the zero time.
func unix(t time.Time) float64 {
	if t.IsZero() {
		return math.NaN()
	}
	return float64(t.UnixNano()) / 1e9
}

// collector provides the table of metrics to Prometheus.
type collector struct {
	service     Service
	models      *models
	connections *connections
	descs       []*prometheus.Desc
}

func newCollector(s Service, m *models, connections *connections) *collector {
	c := &collector{service: s, models: m, connections: connections}
	for _, m := range metrics {
		c.descs = append(c.descs, prometheus.NewDesc(m.name, m.help, m.labels, nil))
	}
	return c
}

func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	v := c.view()
	for i, m := range metrics {
		m.read(v, func(value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(c.descs[i], m.kind, value, labels...)
		})
	}
}

func (c *collector) view() *view {
	v := &view{status: c.service.status(), notReady: c.service.notReady(), registry: c.service.Registry, learns: c.service.Status != nil, version: c.service.Version}
	v.partitions, v.model = v.status.Partitions, c.service.model()
	v.requests, v.sent = c.models.predicting.counts(), c.models.sending.counts()
	v.open = float64(len(c.connections.places))
	if c.service.Predictions != nil {
		v.predicting = c.service.Predictions()
	}
	if c.service.Snapshots != nil {
		v.places = c.service.Snapshots().view()
	}
	if c.service.Source != nil {
		v.source = c.service.Source()
	}
	if c.service.Group != nil {
		v.group = c.service.Group()
	}
	if v.source != nil {
		// The status of the run has the learned positions. The Consumer has the current ends of the partitions.
		v.partitions = append([]run.PartitionStatus(nil), v.partitions...)
		for i := range v.partitions {
			p := &v.partitions[i]
			for _, s := range v.source.Partitions {
				if s.Topic == p.Topic && s.Partition == p.Partition {
					p.HighWater = max(p.HighWater, s.HighWater)
				}
			}
		}
	}
	return v
}

// MetricsTable returns the metrics as a Markdown table, for docs/reference.md.
func MetricsTable() string {
	var b strings.Builder
	b.WriteString("| metric{labels} | meaning |\n|---|---|\n")
	for _, m := range metrics {
		labels := ""
		if len(m.labels) > 0 {
			labels = "{" + strings.Join(m.labels, ",") + "}"
		}
		fmt.Fprintf(&b, "| `%s`%s | %s |\n", m.name, labels, m.help)
	}
	return b.String()
}

package serve

// This file has the table of Prometheus metrics and computes their values.

import (
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/app/shards"
	"blankout/online/health"
	"blankout/serve/predict"
	"blankout/stream"
	"blankout/stream/registry"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is one row of the table of metrics.
type Metric struct {
	Name   string // name with the prefix blankout_
	kind   prometheus.ValueType
	Labels string // names of the labels, separated by commas
	Help   string
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
	places     []destinationStats    // destinations of snapshots
	models     *models
	open       float64 // number of open HTTP connections
	version    string
}

// Metrics is the table of all metrics. docs/reference.md is generated from it. No metric has a label for features, keys
// or events. Field labels exist only for the metricFields worst fields with an alarm. So the number of time series is
// small and bounded.
var Metrics = []Metric{
	{"blankout_build_info", gauge, "version,go", "1, labeled with the version of the program and of Go."},
	{"blankout_ready", gauge, "", "1 if events are being consumed, else 0 (/readyz gives the reason)."},
	{"blankout_events_total", counter, "outcome", "Records counted by outcome: learned, unlabeled, held-out, refused, or passed (tombstones and repeated events)."},
	{"blankout_refused_total", counter, "reason", "Records refused or passed over, by reason."},
	{"blankout_dead_letter_failures_total", counter, "", "Failed attempts to store dead letters; learning waits for them."},
	{"blankout_labels_pending_events", gauge, "", "Events that wait for a delayed label ([labels])."},
	{"blankout_labels_events_total", counter, "outcome", "Events that no longer wait for a label, including before a restart: matched, timed-out, overflowed (labels.max_pending) or repeated (the id waited already)."},
	{"blankout_labels_total", counter, "outcome", "Labels that did not simply match a waiting event, including before a restart: early, corrected, repeated, late or unknown (early without an event)."},
	{"blankout_labels_delay_seconds", gauge, "quantile", "Delay of labels after their events: a quantile, or up to twice it."},
	{"blankout_challenger_leader", gauge, "learner", "1 for the leader, else 0 ([[challenger]])."},
	{"blankout_challenger_difference", gauge, "learner,span", "Loss of a learner minus the leader's on the same events: log-loss, squared error or deviance. Total, or of the latest whole window."},
	{"blankout_challenger_difference_standard_error", gauge, "learner,span", "Standard error of blankout_challenger_difference, over blocks."},
	{"blankout_fetch_retries_total", counter, "cause", "Fetches that were retried, by cause."},
	{"blankout_partition_offset", gauge, "topic,partition", "Offset of the first record that has not been learned."},
	{"blankout_partition_lag_records", gauge, "topic,partition", "Offsets between the learned position and the partition's end; in a group only the partitions of this member's shards."},
	{"blankout_partition_records", gauge, "topic,partition", "Records counted, including before a restart."},
	{"blankout_failing_partitions", gauge, "", "Partitions that cannot be read now and are being retried."},
	{"blankout_registry_waiting_seconds", gauge, "", "Time that a record has been waiting for its schema; 0 if none waits."},
	{"blankout_registry_failures_total", counter, "", "Requests that the schema registry did not answer with a schema."},
	{"blankout_newest_event_age_seconds", gauge, "", "Age of the newest event of the last batch when it was learned."},
	{"blankout_learner_events", gauge, "", "Events learned, including before a restart."},
	{"blankout_progressive_log_loss_nats", gauge, "span", "Mean log-loss of events scored before they were learned: total or window, the recent ones."},
	{"blankout_progressive_error_ratio", gauge, "span", "Fraction of events predicted wrongly before they were learned: total or window, the recent ones."},
	{"blankout_stale_error_ratio", gauge, "age,weights", "Fraction of sampled events predicted wrongly by weights about age events old, and by current weights."},
	{"blankout_stale_excess_nats", gauge, "age", "Log-loss of weights about age events old, minus that of the class frequencies."},
	{"blankout_progressive_auc_ratio", gauge, "", "Area under the ROC curve of events scored before they were learned; two classes."},
	{"blankout_progressive_precision_ratio", gauge, "", "Fraction of events predicted positive (learner.threshold) that were positive; two classes."},
	{"blankout_progressive_recall_ratio", gauge, "", "Fraction of positive events that were predicted positive; two classes."},
	{"blankout_progressive_absolute_error", gauge, "span", "Mean absolute error of events predicted before they were learned, in the target's unit; regression."},
	{"blankout_progressive_root_mean_squared_error", gauge, "span", "Root mean squared error of events predicted before they were learned, in the target's unit; regression."},
	{"blankout_model_version", gauge, "", "Version of the published model; it never decreases, also across restarts."},
	{"blankout_model_age_seconds", gauge, "", "Time since the model was published."},
	{"blankout_model_staleness_records", gauge, "", "Records counted since the model was published."},
	{"blankout_predict_requests_total", counter, "outcome", "Prediction requests: answered, failed or turned-away (too many at once)."},
	{"blankout_predict_requests_active", gauge, "", "Prediction requests in progress or waiting."},
	{"blankout_model_requests_total", counter, "outcome", "Requests for the model, except by clients that had it: answered, failed or turned-away (too many at once)."},
	{"blankout_model_requests_active", gauge, "", "Requests for the model in progress or waiting."},
	{"blankout_http_connections", gauge, "", "Open connections to the HTTP server."},
	{"blankout_predictions_total", counter, "outcome", "Predictions acknowledged by the topic of predictions: scored, or refused because the event cannot be used."},
	{"blankout_prediction_ready", gauge, "", "1 if the events of predict.topic are being scored, else 0 (/readyz gives the reason)."},
	{"blankout_prediction_lag_records", gauge, "topic,partition", "Offsets between the position read for scoring and the partition's end."},
	{"blankout_prediction_age_seconds", gauge, "", "Age of the newest event of the last scored batch when its prediction was acknowledged."},
	{"blankout_prediction_staleness_seconds", gauge, "", "Age of that model at the time of the predictions."},
	{"blankout_snapshots_total", counter, "place,outcome", "Snapshots for the topic, the file or the object: published or failed."},
	{"blankout_snapshot_age_seconds", gauge, "place", "Time since the model of that snapshot was published to readers."},
	{"blankout_coverage_ratio", gauge, "missing", "Fraction of the latest sets or intervals that contained the label, by the missing fraction; the target is learner.coverage."},
	{"blankout_forecast_error_ratio", gauge, "loss,deleted", "Expected error if that fraction of the features goes missing, declared or silently."},
	{"blankout_drift_alarms_total", counter, "", "Alarms of the drift detector."},
	{"blankout_warning", gauge, "kind", "1 while a warning of this kind is in force (docs/operate.md lists the kinds)."},
	{"blankout_checkpoints_total", counter, "outcome", "Checkpoints: saved or failed."},
	{"blankout_checkpoint_last_seconds", gauge, "", "Time the last checkpoint took."},
	{"blankout_checkpoint_pause_last_seconds", gauge, "", "Time that learning paused for the last checkpoint."},
	{"blankout_checkpoint_timestamp_seconds", gauge, "", "Unix time of the last saved checkpoint."},
	{"blankout_commit_failures_total", counter, "", "Failed offset commits; only lag displays are affected."},
	{"blankout_holdout_error_ratio", gauge, "", "Fraction of held-out events since the start that were predicted wrongly."},
	{"blankout_holdout_root_mean_squared_error", gauge, "", "Root mean squared error of held-out events, predicted on arrival, in the target's unit; regression."},
	{"blankout_validations_total", counter, "outcome", "Validations against the exact solution: done or failed."},
	{"blankout_validation_alarm", gauge, "", "1 if the last validation found the live weights far from the exact ones."},
	{"blankout_validation_gap_ratio", gauge, "", "Live objective minus exact objective, relative to the exact one, at the last validation."},
	{"blankout_validation_error_ratio", gauge, "side", "Fraction of the measured events predicted wrongly at the last validation: live or exact."},
	{"blankout_group_members", gauge, "state", "Members of the group: learning, or standby without a shard."},
	{"blankout_group_generation", gauge, "", "Generation of this member's consumer group."},
	{"blankout_shard_learning", gauge, "shard", "Shards of this member: 1 if the shard is learned, 0 if it waits."},
	{"blankout_shard_lag_records", gauge, "shard", "Records that this member's shards have not learned yet."},
	{"blankout_shard_events", gauge, "shard", "Events in the newest model of each shard of the group that this member has."},
	{"blankout_shard_model_age_seconds", gauge, "shard", "Age of the newest model of each shard of the group that this member has."},
	{"blankout_shard_damaged_models_total", counter, "shard", "Published models of each shard that this member could not read."},
	{"blankout_shard_error_ratio", gauge, "shard", "Fraction of a shard's events that the group's answers predict wrongly."},
	{"blankout_shard_own_weight_ratio", gauge, "shard", "Weight of a shard's own score in its answers; the mean has the rest."},
	{"blankout_field_alarms", gauge, "kind", "Current alarms about fields: missing, mean, doubted or stuck; /v1/features names the fields."},
	{"blankout_field_alarms_total", counter, "", "Alarms about fields raised since the start."},
	{"blankout_field_missing_ratio", gauge, "field,span", "Fraction of events in which the field is null, omitted or of an unusual kind: now or usual."},
	{"blankout_field_doubted_ratio", gauge, "field", "Fraction of the examined numbers of the field that are probably no measurements."},
	{"blankout_field_stuck", gauge, "field", "1 for a numeric field that has stopped changing; it counts as missing if learner.doubt is auto."},
	{"blankout_field_alarm_error_ratio", gauge, "field,side", "Error forecast before the field went missing, and with it missing: before or after."},
}

// emitter receives the value of a metric of the table, with the values of its labels.
type emitter func(name string, value float64, labels ...string)

// counts emits the number of each outcome.
func (emit emitter) counts(name string, by map[string]uint64) {
	for outcome, n := range by {
		emit(name, float64(n), outcome)
	}
}

// emit emits the values of all metrics. They are computed during a scrape from data that the run publishes. So metrics
// take no time per event.
func (v *view) emit(emit emitter) {
	emit("blankout_build_info", 1, v.version, runtime.Version())
	emit("blankout_ready", flag(v.notReady == ""))
	v.emitRun(emit)
	if v.status.Labels != nil {
		emitLabels(v.status.Labels, emit)
	}
	v.emitLearners(emit)
	v.emitSources(emit)
	v.emitMeasures(emit)
	v.emitModel(emit)
	v.models.predicting.emit("blankout_predict_requests", emit)
	v.models.sending.emit("blankout_model_requests", emit)
	emit("blankout_http_connections", v.open)
	if v.predicting != nil {
		emitPredictions(v.predicting, emit)
	}
	for _, p := range v.places {
		emit("blankout_snapshots_total", float64(p.published), p.name, "published")
		emit("blankout_snapshots_total", float64(p.failed), p.name, "failed")
		if !p.when.IsZero() {
			emit("blankout_snapshot_age_seconds", time.Since(p.when).Seconds(), p.name)
		}
	}
	if v.group != nil {
		emitGroup(v.group, emit)
	}
	emitFields(v.status.Learner.Health, emit)
}

// emitRun emits metrics of the loop: its records, checkpoints, validations and alarms.
func (v *view) emitRun(emit emitter) {
	s := v.status
	for reason, n := range s.RefusedBy {
		emit("blankout_refused_total", float64(n), string(reason))
	}
	passed := s.Passed()
	emit.counts("blankout_events_total", map[string]uint64{"learned": s.Learned, "unlabeled": s.Unlabeled, "held-out": s.HeldOut, "refused": s.Refused - passed, "passed": passed})
	emit("blankout_dead_letter_failures_total", float64(s.DeadLetterFailures))
	age := math.NaN()
	if !s.NewestTime.IsZero() {
		age = s.NewestAge.Seconds()
	}
	emit("blankout_newest_event_age_seconds", age)
	emit("blankout_drift_alarms_total", float64(s.DriftAlarms))
	emit("blankout_field_alarms_total", float64(s.FieldAlarms))
	for _, kind := range health.WarningKinds {
		emit("blankout_warning", flag(slices.ContainsFunc(s.Warnings, func(w health.Warning) bool { return w.Kind == kind })), kind)
	}
	emit.counts("blankout_checkpoints_total", map[string]uint64{"saved": s.Save.Saved, "failed": s.Save.Failed})
	emit("blankout_checkpoint_last_seconds", s.Save.Took.Seconds())
	emit("blankout_checkpoint_pause_last_seconds", s.Save.Pause.Seconds())
	emit("blankout_checkpoint_timestamp_seconds", unix(s.Save.At))
	emit("blankout_commit_failures_total", float64(s.Save.CommitFailures))
	emit.counts("blankout_validations_total", map[string]uint64{"done": s.Validation.Done, "failed": s.Validation.Failed})
	emit("blankout_validation_alarm", flag(s.Validation.Alarm))
	if r := s.Validation.Last; r != nil {
		emit("blankout_validation_gap_ratio", gaugeOf(r.RelativeGap))
		emit("blankout_validation_error_ratio", gaugeOf(r.Live.Error)/100, "live")
		emit("blankout_validation_error_ratio", gaugeOf(r.Exact.Error)/100, "exact")
	}
}

// emitLabels emits metrics of delayed labels.
func emitLabels(c *run.LabelCounts, emit emitter) {
	emit("blankout_labels_pending_events", float64(c.Pending))
	emit.counts("blankout_labels_events_total", map[string]uint64{"matched": c.Matched, "timed-out": c.TimedOut, "overflowed": c.Overflowed, "repeated": c.RepeatedEvents})
	emit.counts("blankout_labels_total", map[string]uint64{"early": c.Early, "corrected": c.Corrected, "repeated": c.Repeated, "late": c.Late, "unmatched": c.Unmatched})
	for _, q := range []float64{0.5, 0.9, 0.99} {
		emit("blankout_labels_delay_seconds", c.Delay(q), number(q))
	}
}

// emitLearners emits metrics of the learners, if there are several.
func (v *view) emitLearners(emit emitter) {
	defined := func(name string, x *float64, labels ...string) {
		if x != nil {
			emit(name, *x, labels...)
		}
	}
	for _, r := range LearnerReports(v.status) {
		emit("blankout_challenger_leader", flag(r.Leader), r.Name)
		if c := r.Compared; c != nil {
			defined("blankout_challenger_difference", c.Difference, r.Name, "total")
			defined("blankout_challenger_difference", c.Window.Difference, r.Name, "window")
			defined("blankout_challenger_difference_standard_error", c.StandardError, r.Name, "total")
			defined("blankout_challenger_difference_standard_error", c.Window.StandardError, r.Name, "window")
		}
	}
}

// emitSources emits metrics of the topics and of the schema registry. Unknown numbers of a partition are negative. They
// are left out, because a sum over partitions must not become NaN.
func (v *view) emitSources(emit emitter) {
	for _, p := range v.partitions {
		known := func(name string, n int64) {
			if n >= 0 {
				emit(name, float64(n), p.Topic, strconv.Itoa(int(p.Partition)))
			}
		}
		known("blankout_partition_offset", p.Next)
		known("blankout_partition_lag_records", p.Lag())
		known("blankout_partition_records", int64(p.Records))
	}
	if s := v.source; s != nil {
		for cause, n := range s.Retries {
			emit("blankout_fetch_retries_total", float64(n), cause)
		}
		failing := 0.0
		for _, p := range s.Partitions {
			failing += flag(p.Failing != "")
		}
		emit("blankout_failing_partitions", failing)
	}
	if v.registry != nil {
		s, waiting := v.registry.Status(), 0.0
		if !s.Since.IsZero() {
			waiting = time.Since(s.Since).Seconds()
		}
		emit("blankout_registry_waiting_seconds", waiting)
		emit("blankout_registry_failures_total", float64(s.Failures))
	}
}

// emitMeasures emits what the learner measures on events before it learns them.
func (v *view) emitMeasures(emit emitter) {
	m := &v.status.Learner
	if !v.status.Started.IsZero() { // unknown before the start
		emit("blankout_learner_events", float64(m.Events))
	}
	spans := func(name string, total, window float64) {
		emit(name, total, "total")
		emit(name, window, "window")
	}
	spans("blankout_progressive_log_loss_nats", m.Total.MeanLogLoss(), m.Window.MeanLogLoss())
	spans("blankout_progressive_error_ratio", m.Total.Error(), m.Window.Error())
	if b := m.Binary; b != nil {
		emit("blankout_progressive_auc_ratio", b.AUC())
		emit("blankout_progressive_precision_ratio", b.Precision())
		emit("blankout_progressive_recall_ratio", b.Recall())
	}
	emit("blankout_holdout_error_ratio", v.status.Holdout.Error())
	if n := m.Numbers; n != nil {
		spans("blankout_progressive_absolute_error", n.Total.MAE(), n.Window.MAE())
		spans("blankout_progressive_root_mean_squared_error", n.Total.RMSE(), n.Window.RMSE())
		emit("blankout_holdout_root_mean_squared_error", v.status.HoldoutNumbers.RMSE())
	}
	for _, r := range m.Sets {
		emit("blankout_coverage_ratio", r.Recent, r.Range)
	}
	for _, r := range m.ByAge {
		age, weights := strconv.FormatUint(r.Age, 10), "aged"
		if r.Age == 0 {
			weights = "fresh"
		}
		if m.Numbers == nil && r.Error != nil {
			if emit("blankout_stale_error_ratio", *r.Error, age, weights); r.FreshError != nil {
				emit("blankout_stale_error_ratio", *r.FreshError, age, "fresh")
			}
		}
		if r.LogLoss != nil && r.ConstantLogLoss != nil {
			emit("blankout_stale_excess_nats", *r.LogLoss-*r.ConstantLogLoss, age)
		}
	}
	// The forecasts of regression are root mean squared errors, not fractions. A level is named once an event is learned.
	if f := &m.Forecast; m.Numbers == nil && f.Level != "" {
		for _, p := range f.Declared {
			emit("blankout_forecast_error_ratio", p.Error, "declared", number(p.Missing))
		}
		for _, p := range f.Silent {
			emit("blankout_forecast_error_ratio", p.Error, "silent", number(p.Missing))
		}
	}
}

// emitModel emits metrics of the published model.
func (v *view) emitModel(emit emitter) {
	if v.model == nil {
		return
	}
	emit("blankout_model_version", float64(v.model.Version))
	if !v.model.At.IsZero() {
		emit("blankout_model_age_seconds", time.Since(v.model.At).Seconds())
	}
	if v.learns {
		since := 0.0
		for _, p := range v.partitions {
			since += float64(p.Records)
		}
		for _, p := range v.model.Offsets {
			since -= float64(p.Records)
		}
		emit("blankout_model_staleness_records", max(since, 0))
	}
}

// emitPredictions emits metrics of the predicted topic.
func emitPredictions(s *predict.Stats, emit emitter) {
	emit.counts("blankout_predictions_total", map[string]uint64{"scored": s.Scored, "refused": s.Refused})
	emit("blankout_prediction_ready", flag(s.LastError == ""))
	for _, p := range s.Partitions {
		emit("blankout_prediction_lag_records", float64(p.Lag), p.Topic, strconv.Itoa(int(p.Partition)))
	}
	if s.Scored > 0 {
		emit("blankout_prediction_age_seconds", s.NewestAge.Seconds())
	}
	if !s.At.IsZero() {
		emit("blankout_prediction_staleness_seconds", s.Age.Seconds())
	}
}

// emitGroup emits metrics of a group and its shards.
func emitGroup(g *shards.Status, emit emitter) {
	emit("blankout_group_members", float64(g.Members-g.Standby), "learning")
	emit("blankout_group_members", float64(g.Standby), "standby")
	emit("blankout_group_generation", float64(g.Generation))
	for i := range g.Shards {
		s := &g.Shards[i]
		shard := strconv.Itoa(s.Number)
		if s.Own {
			emit("blankout_shard_learning", flag(s.NotReady == ""), shard)
			emit("blankout_shard_lag_records", float64(s.Lag), shard)
		}
		emit("blankout_shard_events", float64(s.Events), shard)
		if !s.At.IsZero() {
			emit("blankout_shard_model_age_seconds", time.Since(s.At).Seconds(), shard)
		}
		emit("blankout_shard_damaged_models_total", float64(s.Damaged), shard)
		if s.Error != nil {
			emit("blankout_shard_error_ratio", *s.Error/100, shard)
		}
		emit("blankout_shard_own_weight_ratio", s.OwnWeight, shard)
	}
}

// emitFields emits the alarms about fields by kind, and metrics of the worst fields.
func emitFields(h *health.Health, emit emitter) {
	if h == nil {
		return
	}
	alarms := map[string]float64{}
	for _, f := range h.Fields {
		for _, a := range f.Alarms {
			alarms[a.Kind]++
		}
	}
	for _, kind := range health.FieldAlarmKinds {
		emit("blankout_field_alarms", alarms[kind], kind)
	}
	for name, f := range worstFields(h) {
		if f.Missing != nil {
			emit("blankout_field_missing_ratio", f.Missing.Now, name, "now")
			emit("blankout_field_missing_ratio", f.Missing.Usual, name, "usual")
		}
		if f.Doubted != nil {
			emit("blankout_field_doubted_ratio", f.Doubted.Now, name)
		}
		for _, a := range f.Alarms {
			if a.Kind == health.AlarmStuck {
				emit("blankout_field_stuck", 1, name)
			}
			if a.ErrorAfter != nil {
				emit("blankout_field_alarm_error_ratio", *a.ErrorBefore/100, name, "before")
				emit("blankout_field_alarm_error_ratio", *a.ErrorAfter/100, name, "after")
			}
		}
	}
}

// metricFields is the number of fields with their own metrics. These are the worst of the fields that have an alarm.
// The limit bounds the number of time series. A field name in a label has at most maxLabel bytes.
const metricFields, maxLabel = 10, 100

// worstFields returns the fields that have metrics, by their names in the metrics.
func worstFields(h *health.Health) map[string]*health.FieldHealth {
	worst := map[string]*health.FieldHealth{}
	for i := range h.Fields {
		field := &h.Fields[i]
		if len(field.Alarms) == 0 || len(worst) == metricFields {
			break // fields are sorted, so no later field has an alarm
		}
		name := strings.ToValidUTF8(field.Field, "\uFFFD")
		if len(name) > maxLabel {
			name = strings.ToValidUTF8(name[:maxLabel], "") + "…"
		}
		if worst[name] == nil { // fields of several kinds may share a name
			worst[name] = field
		}
	}
	return worst
}

// number formats a number for a label.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

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
	metrics     map[string]described // by name
}

// described is a metric in the form of Prometheus.
type described struct {
	kind prometheus.ValueType
	desc *prometheus.Desc
}

func newCollector(s Service, m *models, connections *connections) *collector {
	c := &collector{service: s, models: m, connections: connections, metrics: map[string]described{}}
	for _, m := range Metrics {
		c.metrics[m.Name] = described{m.kind, prometheus.NewDesc(m.Name, m.Help, m.labelNames(), nil)}
	}
	return c
}

func (m *Metric) labelNames() []string {
	return strings.FieldsFunc(m.Labels, func(r rune) bool { return r == ',' })
}

func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		out <- m.desc
	}
}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	c.view().emit(func(name string, value float64, labels ...string) {
		m := c.metrics[name]
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
	})
}

func (c *collector) view() *view {
	v := &view{status: c.service.status(), notReady: c.service.notReady(), registry: c.service.Registry, learns: c.service.Status != nil, models: c.models, version: c.service.Version}
	v.partitions, v.model = v.status.Partitions, c.service.model()
	v.open = float64(len(c.connections.places))
	v.predicting, v.places, v.source, v.group = call(c.service.Predictions), call(c.service.Snapshots).view(), call(c.service.Source), call(c.service.Group)
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

package config

import "strings"

// fixed are the settings of earlier versions that are no keys any more, with what is in
// force instead: a configuration that names one is told so.
var fixed = map[string]string{
	"kafka.client_id":         `it is "blankout"`,
	"kafka.isolation":         `it is "read_committed"`,
	"kafka.max_bytes":         "it is 1 MiB",
	"kafka.max_wait":          `it is "500ms"`,
	"kafka.prefetch":          "it is 2",
	"kafka.batch_records":     "it is 512",
	"kafka.create_partitions": "it is 1",
	"kafka.metadata_interval": `it is "5s"`,
	"kafka.until_end":         "run --until-end does it",
	"kafka.sasl.password_env": "the variable is BLANKOUT_KAFKA_PASSWORD",
	"record.known":            `record.absent = "missing" says so`,
	"record.group_every":      "name the columns of each group in record.groups",
	"record.unlabelled":       "kafka.unlabelled_topics names topics without labels",
	"record.max_features":     "it is 100000",
	"record.max_fields":       "it is 16384",
	"registry.password_env":   "the variable is BLANKOUT_REGISTRY_PASSWORD",
	"registry.token_env":      "the variable is BLANKOUT_REGISTRY_TOKEN",
	"learner.levels":          "they are 0, 0.3 and 0.7, or what expected_missing says in the place of one",
	"learner.group_levels":    "they are 0.3 and 0.5 where expected_missing_groups is above 0",
	"learner.publish_levels":  "it is true",
	"learner.marginalised":    "learner.noisy_gradient is that of rule dropout-descent",
	"learner.start":           "it is 1",
	"learner.intercept":       `it is "free"`,
	"learner.average":         "it is 0.15",
	"learner.adapt":           "it is true",
	"learner.transform":       `it is "auto"`,
	"learner.field_transform": `it is "auto" for every field`,
	"learner.presence":        `it is "auto"`,
	"learner.half_life_step":  "it is ten times half_life_time",
	"http.token_env":          "the variable is BLANKOUT_HTTP_TOKEN",
	"http.max_body":           "it is 8 MiB",
	"http.max_predicting":     "it is 16",
	"http.client_timeout":     `it is "10s"`,
	"http.answer_timeout":     `it is "30s"`,
	"http.max_connections":    "it is 1024",
	"http.publish_events":     "publish_interval says when",
	"validate.interval":       "validate.events says when",
	"validate.window_time":    "validate.window bounds what is read",
	"validate.reservoir":      "it is 1000",
	"validate.validation_cpu": "it is 0.5",
	"validate.adopt_margin":   "it is 1",
	"validate.tol":            "it is 1e-6",
	"validate.top":            "it is 20",
	"validate.keep":           "it is 100",
	"predict.commit_interval": `it is "1s"`,
	"predict.model_interval":  `it is "1s"`,
	"predict.token_env":       "the variable is BLANKOUT_HTTP_TOKEN",
	"group.mix_topic":         "it is NAME-mix",
	"group.base_topic":        "it is NAME-base",
	"group.partitions":        "they are 8; a topic NAME-mix that is there keeps its own",
	"group.share":             "it is 0.02",
	"group.interval_events":   "it is 1000000",
	"group.precision":         "it is 32",
	"group.rebalance_timeout": "it is three times session_timeout",
}

// unknownKey says of a key that there is none of that name, and which may be meant.
func unknownKey(name string, known []key) string {
	if now, ok := fixed[name]; ok {
		return "no key any more: " + now
	}
	return "unknown key" + suggest(name, known)
}

// fixedVariable is what unknownKey says of the variable of a key that is fixed, "" of others.
func fixedVariable(name string) string {
	for path, now := range fixed {
		if (key{path: strings.Split(path, ".")}).env() == name {
			return "no key any more: " + now
		}
	}
	return ""
}

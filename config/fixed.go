package config

import "strings"

// renamed gives the present name of each key that had another one.
var renamed = map[string]string{
	"group.base_every":          "group.snapshot_every",
	"http.unknown":              "http.unseen",
	"kafka.duplicates":          "kafka.dedup_window",
	"kafka.unlabelled_topics":   "kafka.unlabeled_topics",
	"labels.default":            "labels.timeout_label",
	"labels.idle":               "labels.idle_timeout",
	"labels.late":               "labels.late_policy",
	"labels.wait":               "labels.max_delay",
	"learner.alpha":             "learner.unlabeled_weight",
	"learner.covariance_fields": "learner.covariance_max_fields",
	"learner.eta":               "learner.learning_rate",
	"learner.horizon":           "learner.serving_staleness",
	"learner.missing":           "learner.missing_policy",
	"learner.refresh":           "learner.irls_batch",
	"learner.refresh_window":    "learner.irls_window",
	"learner.rule":              "learner.optimizer",
	"learner.standardise":       "learner.standardize",
	"learner.suspect":           "learner.mislabeled_below",
	"record.known":              "record.absent",
	"suspect.file":              "mislabeled.file",
	"suspect.topic":             "mislabeled.topic",
}

// renamedSections gives the present name of each section that had another one.
var renamedSections = map[string]string{"suspect": "mislabeled"}

// renamedFlags gives the present name of each flag that had another one.
var renamedFlags = map[string]string{
	"alpha":             "unlabeled-weight",
	"covariance-fields": "covariance-max-fields",
	"eta":               "learning-rate",
	"missing":           "missing-policy",
	"refresh":           "irls-batch",
	"refresh-window":    "irls-window",
	"rule":              "optimizer",
	"standardise":       "standardize",
	"unknown":           "unseen",
	"unlabelled":        "unlabeled",
}

// RenamedFlag returns the present name of a flag that had another one, or "".
func RenamedFlag(name string) string { return renamedFlags[name] }

// removed says what to do instead of setting a key that has left.
var removed = map[string]string{
	"learner.curves":       `learner.optimizer = "auto" learns splines of numbers`,
	"learner.field_curves": `learner.optimizer = "auto" learns splines of numbers`,
}

// former explains a name that was a key once; ok is false for any other name.
func former(name string) (explanation string, ok bool) {
	if now, ok := renamed[name]; ok {
		return "renamed to " + now, true
	}
	if now, ok := renamedSections[name]; ok {
		return "renamed to " + now, true
	}
	if instead, ok := removed[name]; ok {
		return "removed: " + instead, true
	}
	return "", false
}

// unknownKey explains a name that is no key, and suggests the nearest one.
func unknownKey(name string, known []key) string {
	if explanation, ok := former(name); ok {
		return explanation
	}
	return "unknown key" + suggest(name, known)
}

// formerVariable explains an environment variable that set a key once, and returns "" for any other.
func formerVariable(name string) string {
	for _, names := range []map[string]string{renamed, removed} {
		for path := range names {
			if (key{path: strings.Split(path, ".")}).env() != name {
				continue
			}
			if now, ok := renamed[path]; ok {
				return "renamed to " + (key{path: strings.Split(now, ".")}).env()
			}
			return "removed: " + removed[path]
		}
	}
	return ""
}

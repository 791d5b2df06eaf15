package config

import "strings"

// renamed maps former keys to their current names.
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

// renamedSections maps former sections to their current names.
var renamedSections = map[string]string{"suspect": "mislabeled"}

// renamedFlags maps former flags to their current names.
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

// RenamedFlag returns the current name of a renamed flag, or "" for other names.
func RenamedFlag(name string) string { return renamedFlags[name] }

// removed maps keys that no longer exist to advice on what to do instead.
var removed = map[string]string{
	"learner.curves":       `learner.optimizer = "auto" learns splines of numbers`,
	"learner.field_curves": `learner.optimizer = "auto" learns splines of numbers`,
}

// former returns an explanation for the name of a former key. The result ok is false for any other name.
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

// unknownKey returns an explanation for a name that is not a key, and suggests the nearest key.
func unknownKey(name string, known []key) string {
	if explanation, ok := former(name); ok {
		return explanation
	}
	return "unknown key" + suggest(name, known)
}

// formerVariable returns an explanation for an environment variable of a former key, or "" for other variables.
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

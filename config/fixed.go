package config

import "strings"

// renamed gives the present name of each key that had another one.
var renamed = map[string]string{
	"record.known": "record.absent",
}

// removed says what to do instead of setting a key that has left.
var removed = map[string]string{
	"learner.curves":       `learner.rule = "auto" learns splines of numbers`,
	"learner.field_curves": `learner.rule = "auto" learns splines of numbers`,
}

// former explains a name that was a key once; ok is false for any other name.
func former(name string) (explanation string, ok bool) {
	if now, ok := renamed[name]; ok {
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

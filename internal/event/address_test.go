package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
)

func TestAddress(t *testing.T) {
	for a, want := range map[Address]string{
		"":                                      "",
		"checkpoints":                           "checkpoints",
		`C:\models\a@b`:                         `C:\models\a@b`,
		"models/a@b.blankout":                   "models/a@b.blankout",
		"what?.blankout":                        "what?.blankout",
		"s3://bucket/key":                       "s3://bucket/key",
		"https://host:1/path":                   "https://host:1/path",
		"https://me@host/path":                  "https://***@host/path",
		"https://me:s3cret@host:1/path":         "https://***@host:1/path",
		"https://me:a@s3cret@host":              "https://***@host",
		"https://me:s3/cret@host":               "https://***@host",
		"https://me:s3?cret@host":               "https://***?***",
		"https://me:s3cret%@host":               "https://***@host",
		"https://host/p?token=s3cret":           "https://host/p?***",
		"https://host/p#s3cret":                 "https://host/p#***",
		"https://host?a=b@s3cret":               "https://***?***",
		"https://a,https://me:s3cret@b":         "https://***@b",
		"https://a?token=s3cret,x,https://b":    "https://a?***",
		"me:s3cret@host:9000":                   "***@host:9000",
		"host:9000/?token=s3cret":               "host:9000/?***",
		"http:/me:s3cret@host":                  "***@host",
		"kafka://host:9092/topic?secret=s3cret": "kafka://host:9092/topic?***",
	} {
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "at", a)
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "at", struct{ A Address }{a})
		asJSON, err := json.Marshal(map[string]any{"a": a})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{a.String(), fmt.Sprintf("%v %q %#v %+v", a, a, a, struct{ A Address }{a}), string(asJSON), log.String()} {
			if strings.Contains(text, "s3") && strings.Contains(text, "cret") {
				t.Errorf("%s tells the secret: %s", string(a), text)
			}
		}
		if got := a.String(); got != want {
			t.Errorf("%s: %s, want %s", string(a), got, want)
		}
	}
}

func TestHideAddresses(t *testing.T) {
	err := HideAddresses(fmt.Errorf(`Get "https://me:s3cret@host/p?token=s3cret": not found: http://b/?x=s3cret: %w`, io.EOF))
	if want := `Get "https://***@host/p?***": not found: http://b/?*** EOF`; err.Error() != want || !errors.Is(err, io.EOF) {
		t.Errorf("%v, want %s", err, want)
	}
	if HideAddresses(nil) != nil {
		t.Error("nothing became an error")
	}
}

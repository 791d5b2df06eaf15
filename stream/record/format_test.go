package record

import (
	"testing"

	"blankout/internal/must"
)

// TestFormatOf checks that the suffix of a file name takes precedence over the rest of the name.
func TestFormatOf(t *testing.T) {
	for name, want := range map[string]string{
		"idx.csv": "csv", "a/sidx.jsonl.gz": "json", "train.svm.zst": "svmlight", "x.vw": "vw",
		"train-images-idx3-ubyte.gz": "idx", "t10k-images.idx3-ubyte": "idx", "events": "",
	} {
		must.Equal(t, FormatOf(name), want, name)
	}
}

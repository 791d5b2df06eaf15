package record

import "testing"

// The suffix of a file name tells the format before anything else in the name.
func TestFormatOf(t *testing.T) {
	for name, want := range map[string]string{
		"idx.csv": "csv", "a/sidx.jsonl.gz": "json", "train.svm.zst": "svmlight", "x.vw": "vw",
		"train-images-idx3-ubyte.gz": "idx", "t10k-images.idx3-ubyte": "idx", "events": "",
	} {
		if got := FormatOf(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

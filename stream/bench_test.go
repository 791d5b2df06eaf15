package stream

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/stream/record"
)

// BenchmarkFile reads a file of svmlight into examples, as the command train does.
func BenchmarkFile(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	var text strings.Builder
	for range 20_000 {
		fmt.Fprintf(&text, "%d", r.IntN(10))
		for d := range 784 {
			if r.IntN(5) == 0 {
				fmt.Fprintf(&text, " %d:%.4g", d+1, float64(1+r.IntN(255))/255)
			}
		}
		text.WriteByte('\n')
	}
	path := filepath.Join(b.TempDir(), "a.svm")
	must.Do(b, os.WriteFile(path, []byte(text.String()), 0o666))
	c := record.DefaultConfig()
	c.MaxClasses = 10
	for _, threads := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			for b.Loop() {
				f, err := OpenFile(path, c, c.Schema())
				must.Do(b, err)
				f.Ahead(threads, nil)
				var batch event.Batch
				for err == nil {
					err = f.Next(b.Context(), &batch)
				}
				must.Require(b, err == io.EOF, "%v", err)
				f.Close()
			}
		})
	}
}

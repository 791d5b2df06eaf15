package kafka

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"blankout/app/served"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/stream/record"
)

// published returns the contents of a topic with one model, and the manifest's text.
func published(t testing.TB) (*contents, string) {
	t.Helper()
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	m := served.New(model.NewLinear(schema, "logistic", "none", [][]float64{{0, 0.5, -0.25}}, []float64{0.125}), svmlight())
	kind, blocks := must.Get2(m.Blocks())(t)
	c, list := &contents{pieces: map[string][]byte{}}, manifest{Format: 1, Kind: kind}
	for b := range blocks {
		hash := hashOf(b.Data)
		list.Blocks = append(list.Blocks, manifestBlock{Name: b.Name, Bytes: len(b.Data), Pieces: []string{hash}})
		must.Do(t, c.add(record.Record{Key: []byte(keyPiece + hash), Value: b.Data}, keyPiece+hash, true))
	}
	value := must.Get(list.encode())(t)
	_, text, _ := strings.Cut(string(value), "\n")
	return c, text
}

func svmlight() record.Config {
	recordConfig := record.DefaultConfig()
	recordConfig.Format = "svmlight"
	return recordConfig
}

// read assembles the model that a manifest with this text describes.
func (c *contents) read(text string, limit int64) (*served.Model, error) {
	sum := sha256.Sum256([]byte(text))
	value := hex.EncodeToString(sum[:]) + "\n" + text
	if err := c.add(record.Record{Key: []byte(keyManifest), Value: []byte(value)}, keyManifest, true); err != nil {
		return nil, err
	}
	config := svmlight()
	return c.assemble(served.Options{Record: &config, MaxBytes: limit})
}

// TestManifestBomb checks that a manifest that names a piece very often is rejected, so that the assembled size is
// bounded.
func TestManifestBomb(t *testing.T) {
	c, text := published(t)
	must.Do(t, must.Err(c.read(text, 100_000)))
	at := strings.Index(text, `"pieces":["`) + len(`"pieces":[`)
	piece := text[at : at+2+32]
	bomb := text[:at] + strings.Repeat(piece+",", 100_000) + text[at:]
	_, err := c.read(bomb, 100_000)
	must.True(t, errors.Is(err, checkpoint.ErrDamaged) && strings.Contains(err.Error(), "more of the pieces"), "%v", err)
}

// FuzzManifest reads manifests with a correct checksum and arbitrary text.
func FuzzManifest(f *testing.F) {
	_, text := published(f)
	f.Add(text)
	f.Add(strings.Replace(text, `"bytes":`, `"bytes":-`, 1))
	f.Add(`{"format":1,"blocks":[{"name":"model","pieces":null}]}`)
	f.Add(`{"format":2}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, _ := published(t)
		if m, err := c.read(text, 100_000); err == nil {
			_, _ = m.Predict([]byte("1 1:1"), 3)
		}
	})
}

package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
)

var update = flag.Bool("update", false, "rewrite testdata")

func encode(t testing.TB, kind Kind, blocks ...event.Block) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, Write(&b, kind, slices.Values(blocks)))
	return b.Bytes()
}

var sample = []event.Block{
	{Name: "model", Data: []byte(`{"outputs":1}`)},
	{Name: "empty", Data: nil},
	{Name: "rows/0000", Data: []byte{0, 1, 2, 3, 4, 5, 6, 7}},
}

func sameBlocks(a, b []event.Block) bool {
	return slices.EqualFunc(a, b, func(a, b event.Block) bool {
		return a.Name == b.Name && bytes.Equal(a.Data, b.Data)
	})
}

func TestRoundTrip(t *testing.T) {
	for _, blocks := range [][]event.Block{nil, sample, {{Name: "big", Data: make([]byte, 1<<20)}}} {
		f, err := Decode(encode(t, Kernel, blocks...))
		must.True(t, err == nil && f.Kind == Kernel && sameBlocks(f.Blocks, blocks), "%d blocks: %+v, %v", len(blocks), f, err)
	}
	must.ErrorContains(t, must.Err((&File{Name: "x"}).Block("rows")), `x: no block "rows"`, "missing block")
}

// TestGoldenFile checks that files written by earlier versions of this format stay readable.
func TestGoldenFile(t *testing.T) {
	path := filepath.Join("testdata", "version1.blankout")
	got := encode(t, Linear, sample...)
	if *update {
		must.Do(t, os.WriteFile(path, got, 0o644))
	}
	want := must.Get(os.ReadFile(path))(t)
	must.True(t, bytes.Equal(got, want), "the encoding has changed:\n%q\n%q", got, want)
}

func TestWriteRefuses(t *testing.T) {
	for name, write := range map[string]func() error{
		"kind":  func() error { return Write(&bytes.Buffer{}, "round", slices.Values(sample)) },
		"empty": func() error { return Write(&bytes.Buffer{}, Linear, slices.Values([]event.Block{{}})) },
		"twice": func() error {
			return Write(&bytes.Buffer{}, Linear, slices.Values([]event.Block{{Name: "a"}, {Name: "a"}}))
		},
		"writer": func() error { return Write(failingWriter{}, Linear, slices.Values(sample)) },
	} {
		must.True(t, write() != nil, "%s: no error", name)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("full") }

// TestWriteStreams checks that Write keeps one block in memory: it must request a block only after it has written the
// previous block.
func TestWriteStreams(t *testing.T) {
	var written countingWriter
	written.w = &bytes.Buffer{}
	blocks := func(yield func(event.Block) bool) {
		for i := range 4 {
			must.True(t, int64(i)<<20 <= written.n+1<<17, "block %d asked for after %d bytes", i, written.n)
			if !yield(event.Block{Name: fmt.Sprint(i), Data: make([]byte, 1<<20)}) {
				return
			}
		}
	}
	must.Do(t, Write(&written, Linear, iter.Seq[event.Block](blocks)))
}

// decode decodes a file from memory. It also decodes the bytes from a reader, and checks them without keeping the
// blocks. It fails the test if the results or the errors differ.
func decode(t *testing.T, data []byte) (*File, error) {
	t.Helper()
	f, err := Decode(data)
	for _, check := range []bool{false, true} {
		d := decoder{in: bytes.NewReader(data), size: len(data), check: check}
		read, readErr := d.file()
		must.Require(t, fmt.Sprint(readErr) == fmt.Sprint(err) && (check || reflect.DeepEqual(read, f)), "read %+v, %v; decoded %+v, %v", read, readErr, f, err)
	}
	return f, err
}

// TestReadLarge reads a file with blocks of different sizes, because memory is allocated differently for small and
// large blocks. If the file becomes shorter while it is read, ReadFile must return an error and no blocks.
func TestReadLarge(t *testing.T) {
	var blocks []event.Block
	r := rand.New(rand.NewPCG(1, 2))
	for i, size := range []int{0, 1, 1<<16 - 5, 1<<16 - 4, 1 << 16, 1<<19 + 8, 1 << 19, 4<<20 - 4, 5 << 20, 1 << 19} {
		b := event.Block{Name: fmt.Sprint(i), Data: make([]byte, size)}
		for j := range b.Data {
			b.Data[j] = byte(r.Uint32())
		}
		blocks = append(blocks, b)
	}
	path := filepath.Join(t.TempDir(), "large.blankout")
	must.Do(t, WriteFile(path, Linear, slices.Values(blocks)))
	f, err := ReadFile(path)
	must.Require(t, err == nil && len(f.Blocks) == len(blocks), "%v %v", f, err)
	for i, b := range f.Blocks {
		must.True(t, b.Name == blocks[i].Name && bytes.Equal(b.Data, blocks[i].Data), "block %d of %d bytes differs", i, len(blocks[i].Data))
	}
	data := must.Get(os.ReadFile(path))(t)
	must.Do(t, must.Err(decode(t, data)))
	for _, n := range []int{0, 5, 1000, len(data) / 2, len(data) - 1} {
		d := decoder{in: bytes.NewReader(data[:n]), size: len(data)}
		must.ErrorIs(t, must.Err(d.file()), ErrDamaged, n, "bytes are left")
		d = decoder{in: io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(errInjected)), size: len(data)}
		_, err := d.file()
		must.True(t, errors.Is(err, errInjected) && !errors.Is(err, ErrDamaged), "an error after %d bytes: %v", n, err)
	}
}

func TestTruncated(t *testing.T) {
	data := encode(t, Linear, sample...)
	for n := range data {
		f, err := decode(t, data[:n])
		want := must.Either(n == 0, ErrForeign, ErrDamaged)
		must.True(t, errors.Is(err, want), "%d of %d bytes: %v, %v", n, len(data), f, err)
	}
	must.ErrorIs(t, must.Err(decode(t, append(slices.Clone(data), 0))), ErrDamaged, "a byte more")
}

func TestEveryBit(t *testing.T) {
	data := encode(t, Linear, sample...)
	for at := range data {
		for flip := 1; flip < 256; flip++ {
			bad := slices.Clone(data)
			bad[at] ^= byte(flip)
			_, err := decode(t, bad)
			want := ErrDamaged
			if at < len(Magic) {
				want = ErrForeign
			}
			must.Require(t, errors.Is(err, want), "byte %d flipped by %#x: %v", at, flip, err)
		}
	}
}

// TestBlocksMoved exchanges, omits and repeats blocks that are valid themselves. The closing part must detect each
// change.
func TestBlocksMoved(t *testing.T) {
	data := encode(t, Linear, sample...)
	var cuts []int // start of each block and of the closing part
	at := prefixLen + 1 + len(Linear) + 4
	for _, b := range sample {
		cuts = append(cuts, at)
		at += 1 + 2 + len(b.Name) + 8 + 4 + len(b.Data) + 4
	}
	cuts = append(cuts, at, len(data))
	part := func(i int) []byte { return data[cuts[i]:cuts[i+1]] }
	head, end := data[:cuts[0]], part(3)
	for name, parts := range map[string][][]byte{
		"exchanged": {head, part(1), part(0), part(2), end},
		"left out":  {head, part(0), part(2), end},
		"repeated":  {head, part(0), part(0), part(1), part(2), end},
		"two ends":  {head, part(0), part(1), part(2), end, end},
	} {
		must.ErrorIs(t, must.Err(decode(t, bytes.Join(parts, nil))), ErrDamaged, name)
	}
	must.Do(t, must.Err(decode(t, bytes.Join([][]byte{head, part(0), part(1), part(2), end}, nil))), "the cuts are wrong")
}

func TestNewerAndForeign(t *testing.T) {
	data := encode(t, Linear, sample...)
	newer := slices.Clone(data)
	binary.LittleEndian.PutUint32(newer[len(Magic):], Version+1)
	binary.LittleEndian.PutUint32(newer[len(Magic)+4:], crc32.Checksum(newer[:len(Magic)+4], castagnoli))
	_, err := decode(t, newer)
	must.True(t, errors.Is(err, ErrNewer) && strings.Contains(err.Error(), "format version 2, this program reads up to 1"), "newer: %v", err)
	for _, text := range []string{"1 3:0.5 7:1\n", "blankets", "b\x00"} {
		must.ErrorIs(t, must.Err(decode(t, []byte(text))), ErrForeign, text)
	}
}

func TestReadFileNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.blankout")
	must.Do(t, WriteFile(path, Linear, slices.Values(sample)))
	f, err := ReadFile(path)
	must.True(t, err == nil && f.Name == "m.blankout", "%+v, %v", f, err)
	must.Do(t, os.Truncate(path, 40))
	_, err = ReadFile(path)
	must.True(t, errors.Is(err, ErrDamaged) && strings.Contains(err.Error(), path), "%v", err)
}

// FuzzDecode decodes files with valid checksums and arbitrary content. Decode must not panic, and must check every
// length before it uses the length.
func FuzzDecode(f *testing.F) {
	f.Add(encode(f, Linear, sample...))
	f.Add(encode(f, Kernel))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Decode(data)
		if err != nil {
			return
		}
		again := encode(t, file.Kind, file.Blocks...)
		must.True(t, bytes.Equal(again, data), "accepted %q, which is not how it is written: %q", data, again)
	})
}

func ExampleWriteFile() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.blankout")
	m := model.NewLinear(event.NewSchema(18, []string{"no", "yes"}, 2), "logistic", "dropout:0.5",
		[][]float64{{0, 0.5, -0.25}}, []float64{0.125})

	blocks, _ := m.EachBlock()
	if err := WriteFile(path, Linear, blocks); err != nil {
		fmt.Println(err)
	}

	file, err := ReadFile(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	read, _ := model.ReadLinear(file.Blocks)
	fmt.Println(file.Kind, read.Noise, read.Weight(1, 0), read.Intercept)
	// Output: linear dropout:0.5 0.5 [0.125]
}

// TestWriteFileTarget checks that WriteFile replaces only regular files, and that it writes through a symbolic link
// without replacing the link.
func TestWriteFileTarget(t *testing.T) {
	dir := t.TempDir()
	blocks := slices.Values([]event.Block{{Name: "a", Data: []byte("x")}})
	link, model := filepath.Join(dir, "link"), filepath.Join(dir, "model")
	must.Do(t, WriteFile(model, Linear, blocks))
	if err := os.Symlink("model", link); err != nil {
		t.Skip(err)
	}
	must.Do(t, os.Truncate(model, 0))
	must.Do(t, WriteFile(link, Linear, blocks))
	info, err := os.Lstat(link)
	must.True(t, err == nil && info.Mode()&fs.ModeSymlink != 0, "the link: %v %v", info, err)
	_, err = ReadFile(model)
	must.True(t, err == nil, "%v", err)
	socket, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Skip(err)
	}
	defer socket.Close()
	must.Do(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	for _, name := range []string{"s", "dangling", "."} {
		before := must.Get(os.Lstat(filepath.Join(dir, name)))(t)
		must.ErrorContains(t, WriteFile(filepath.Join(dir, name), Linear, blocks), "writing", name)
		after, err := os.Lstat(filepath.Join(dir, name))
		must.True(t, err == nil && after.Mode() == before.Mode(), "%s is now %v, was %v", name, after, before)
	}
}

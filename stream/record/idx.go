package record

// This file implements the file format of the MNIST digits.

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"blankout/internal/event"
)

// idx is a pair of files in the format of the MNIST digits. The first file has images of bytes, and the second has one
// byte per image, its label. Pixel j of an image, row by row, is in column j (svmlight index j+1) with the value
// byte/255. A black pixel is absent.
//
//	offset  size  of either file
//	0       2     0
//	2       1     8: unsigned bytes
//	3       1     number of dimensions: 1 for labels, 3 (or 2) for images
//	4       4     big-endian size of each dimension; the first is the count
//	...           the bytes
type idx struct {
	count  int64
	pixels int // number of pixels in an image
	labels []byte
	text   [256]string // byte/255 as the shortest decimal that parses to the same number
}

// NewIdxScanner returns a Scanner of the images in a file. labels opens the file with their labels. labels is not
// called if the configuration declares that there are no labels.
func NewIdxScanner(name string, images io.Reader, c Config, labels func() (io.ReadCloser, error)) (*Scanner, error) {
	x, err := readIdx(images, c)
	if err != nil {
		return nil, err
	}
	if !c.Unlabeled {
		if err := x.readLabels(labels); err != nil {
			return nil, fmt.Errorf("labels: %w", err)
		}
	}
	return &Scanner{Name: name, c: c, in: images, idx: x}, nil
}

// readIdx reads the header of the images file.
func readIdx(in io.Reader, c Config) (*idx, error) {
	dims, err := idxHeader(in)
	if err != nil {
		return nil, err
	}
	x := &idx{count: int64(dims[0]), pixels: 1}
	for b := range x.text {
		x.text[b] = strconv.FormatFloat(float64(b)/255, 'g', -1, 64)
	}
	for _, n := range dims[1:] {
		x.pixels *= int(n)
		if x.pixels < 1 || x.pixels > c.MaxBytes {
			return nil, fmt.Errorf("images of %d bytes, want 1 to max_bytes, %d", x.pixels, c.MaxBytes)
		}
	}
	if len(dims) < 2 {
		return nil, fmt.Errorf("it has labels; give the file of the images, as in train-images-idx3-ubyte")
	}
	return x, nil
}

func idxHeader(in io.Reader) (dims []uint32, err error) {
	var magic [4]byte
	if _, err := io.ReadFull(in, magic[:]); err != nil {
		return nil, fmt.Errorf("no idx header: %w", err)
	}
	if magic[0] != 0 || magic[1] != 0 || magic[2] != 8 || magic[3] < 1 || magic[3] > 3 {
		return nil, fmt.Errorf("it starts with bytes % x: no idx file of unsigned bytes", magic)
	}
	dims = make([]uint32, magic[3])
	if err := binary.Read(in, binary.BigEndian, dims); err != nil {
		return nil, fmt.Errorf("idx header: %w", err)
	}
	return dims, nil
}

func (x *idx) readLabels(open func() (io.ReadCloser, error)) error {
	in, err := open()
	if err != nil {
		return err
	}
	defer in.Close()
	dims, err := idxHeader(in)
	if err != nil {
		return err
	}
	if len(dims) != 1 || int64(dims[0]) != x.count {
		return fmt.Errorf("sizes %d, but there are %d images", dims, x.count)
	}
	// The size in the header may be wrong, so allocate only for bytes that exist.
	if x.labels, err = io.ReadAll(io.LimitReader(in, x.count)); err == nil && int64(len(x.labels)) < x.count {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// LabelsName returns the name of the labels file for an images file, without a compression suffix: …images-idx3…
// becomes …labels-idx1….
func LabelsName(images string) string {
	dir, base := filepath.Split(images)
	base = strings.NewReplacer("images", "labels", "idx3", "idx1", "idx2", "idx1").Replace(base)
	return dir + strings.TrimSuffix(strings.TrimSuffix(base, ".gz"), ".zst")
}

// appendText appends image i as a line of svmlight.
func (x *idx) appendText(line []byte, i int64, pixels []byte) []byte {
	label := byte(0)
	if x.labels != nil {
		label = x.labels[i]
	}
	line = strconv.AppendUint(line, uint64(label), 10)
	for j, b := range pixels {
		if b > 0 {
			line = append(line, ' ')
			line = strconv.AppendUint(line, uint64(j+1), 10)
			line = append(line, ':')
			line = append(line, x.text[b]...)
		}
	}
	return line
}

// idxDecoder decodes images. The offset of a Record is the number of the image.
type idxDecoder struct {
	core
	images *idx
}

func newIdxDecoder(c Config, s *event.Schema, x *idx) (Decoder, error) {
	if uint64(x.pixels) > s.Columns() {
		return nil, fmt.Errorf("images of %d pixels need more than bits %d", x.pixels, s.Bits)
	}
	if x.pixels > c.MaxFeatures {
		return nil, fmt.Errorf("images of %d pixels, max_features is %d", x.pixels, c.MaxFeatures)
	}
	return &idxDecoder{newCore(c, s), x}, nil
}

func (d *idxDecoder) Decode(_ context.Context, r Record, e *event.Example) error {
	d.reset(&r, e)
	e.Field = nil
	for j, b := range r.Value {
		if b > 0 {
			e.Features.Index = append(e.Features.Index, uint32(j))
			e.Features.Value = append(e.Features.Value, float64(b)/255)
		}
	}
	if d.images.labels != nil {
		var text [3]byte
		d.label(&r, e, strconv.AppendUint(text[:0], uint64(d.images.labels[r.Offset]), 10))
	}
	return nil
}

package papers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// cells stores the computed results (cells) in a file of JSON lines, one per cell: {"key": …, "seconds": …, "value":
// …}. Lines are only appended. An incomplete last line, which a crash leaves, is dropped.
type cells struct {
	mu      sync.Mutex
	file    *os.File
	known   map[string]cell
	seconds float64 // sum over the cells used so far
}

type cell struct {
	Key     json.RawMessage `json:"key"`
	Seconds float64         `json:"seconds"`
	Value   json.RawMessage `json:"value"`
}

type cellKey struct {
	Experiment string `json:"experiment"`
	Data       string `json:"data"`
	Seed       uint64 `json:"seed"`
	Cell       any    `json:"cell"`
}

func openCells(path string) (*cells, error) {
	c := &cells{known: map[string]cell{}}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	n := 0
	for line := range bytes.Lines(data) {
		n++
		var k cell
		if err := json.Unmarshal(line, &k); err != nil {
			return nil, fmt.Errorf("%s:%d: %w (remove the file to compute everything anew)", path, n, err)
		}
		c.known[string(k.Key)] = k
	}
	if c.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666); err != nil {
		return nil, err
	}
	if err := c.file.Truncate(int64(len(data))); err != nil {
		return nil, errors.Join(err, c.file.Close())
	}
	return c, nil
}

// find reads the value of a cell. It returns false if the cell has not been computed.
func (c *cells) find(key json.RawMessage, value any) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.known[string(key)]
	if !ok {
		return false, nil
	}
	c.seconds += found.Seconds
	return true, json.Unmarshal(found.Value, value)
}

// compute computes a cell and appends it to the file.
func (c *cells) compute(key json.RawMessage, f func() (any, error)) error {
	begin := time.Now()
	value, err := f()
	if err != nil {
		return err
	}
	k := cell{Key: key}
	if k.Value, err = json.Marshal(value); err != nil {
		return fmt.Errorf("cell %s: %w", k.Key, err)
	}
	k.Seconds = float64(time.Since(begin).Milliseconds()) / 1000
	line, err := json.Marshal(k)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.file.Write(append(line, '\n')); err != nil {
		return err
	}
	c.known[string(k.Key)] = k
	c.seconds += k.Seconds
	return nil
}

func (c *cells) close() error { return c.file.Close() }

package event

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"
)

// Block is a named part of a model or checkpoint file. The writer of a block defines the meaning of its bytes; the
// container (package checkpoint) only protects them.
type Block struct {
	Name string
	Data []byte
}

// FindBlock returns the data of the block with the given name.
func FindBlock(blocks []Block, name string) ([]byte, error) {
	for _, b := range blocks {
		if b.Name == name {
			return b.Data, nil
		}
	}
	return nil, fmt.Errorf("no block %q", name)
}

// ReadJSON decodes the block with the given name, which JSONBlock has written.
func ReadJSON(blocks []Block, name string, to any) error {
	data, err := FindBlock(blocks, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("block %s: %w", name, err)
	}
	return nil
}

// BlocksUnder returns the blocks whose names begin with prefix, and removes the prefix from their names.
func BlocksUnder(blocks []Block, prefix string) (under []Block) {
	for _, b := range blocks {
		if name, ok := strings.CutPrefix(b.Name, prefix); ok {
			under = append(under, Block{Name: name, Data: b.Data})
		}
	}
	return under
}

// JSONBlock returns a block with the JSON of a value.
func JSONBlock(name string, value any) (Block, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return Block{}, fmt.Errorf("encoding the block %s: %w", name, err)
	}
	return Block{name, data}, nil
}

// JoinBlocks yields the blocks of several sequences, one sequence after the other.
func JoinBlocks(sequences ...iter.Seq[Block]) iter.Seq[Block] {
	return func(yield func(Block) bool) {
		for _, blocks := range sequences {
			for b := range blocks {
				if !yield(b) {
					return
				}
			}
		}
	}
}

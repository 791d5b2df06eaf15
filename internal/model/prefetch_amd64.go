package model

// prefetch asks for the first bytes of the rows of slots, each given plus one or 0
// for none. A row has size bytes, a block 1<<perBits rows.
//

//go:noescape
func prefetch(slots *uint32, count int, blocks *tableBlock, perBits, size, bytes int)

// prefetchLines asks for so many bytes, at least one, from p on.
//

//go:noescape
func prefetchLines(p *float64, bytes int)

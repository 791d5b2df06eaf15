package model

// prefetch loads the first bytes of rows into the cache. places has slot + 1 for each row, or 0 for none. A row has
// size bytes, and a block has 1<<perBits rows.

//go:noescape
func prefetch(slots *uint32, count int, blocks *tableBlock, perBits, size, bytes int)

// prefetchLines loads the given number of bytes, at least one, from p on into the cache.

//go:noescape
func prefetchLines(p *float64, bytes int)

package blankout

// prefetch asks for the first lines of rows, of size bytes each.
//
//go:noescape
func prefetch(rows **float64, count, size int)

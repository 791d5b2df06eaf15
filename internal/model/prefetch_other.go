//go:build !amd64

package model

func prefetch(slots *uint32, count int, blocks *tableBlock, perBits, size, bytes int) {}

func prefetchLines(p *float64, bytes int) {}

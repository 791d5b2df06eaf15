package rows

// withoutAVX2 calls f while the assembly loops are disabled.
func withoutAVX2(f func()) {
	was := hasAVX2
	hasAVX2 = false
	defer func() { hasAVX2 = was }()
	f()
}

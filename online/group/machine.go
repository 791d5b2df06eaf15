package group

// This file says on what a member computes: the same program has the same bits on all machines
// of one architecture, and others elsewhere.

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/cpu"

	"blankout/internal/event"
)

// machine is what a member computes on.
type machine struct {
	architecture string // that its program is built for
	cpu          string // for people
}

// thisMachine returns what this program runs on.
func thisMachine() machine {
	m := machine{architecture: runtime.GOARCH, cpu: runtime.GOARCH}
	if m.architecture == "amd64" && fuses(1+0x1p-30, 1-0x1p-30, -1) {
		m.architecture = "amd64 (GOAMD64=v3)"
	}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		m.cpu = cmp.Or(cpuModel(f), m.cpu)
		f.Close()
	}
	if strings.HasPrefix(m.architecture, "amd64") {
		m.cpu = withFeatures(m.cpu, cpu.X86.HasFMA, cpu.X86.HasAVX2)
	}
	return m
}

// fuses tells whether the compiler rounds x*y+z once: from GOAMD64=v3 on it does, and a program
// built so is as another architecture.
//
//go:noinline
func fuses(x, y, z float64) bool { return x*y+z != float64(x*y)+z }

// cpuModel returns the CPU's name in what Linux says of it, "" if there is none.
func cpuModel(r io.Reader) string {
	s := bufio.NewScanner(io.LimitReader(r, 1<<16))
	for s.Scan() {
		name, value, _ := strings.Cut(s.Text(), ":")
		if name = strings.TrimSpace(name); name == "model name" || name == "cpu model" || name == "cpu" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// withFeatures appends how the CPU can multiply, as far as GODEBUG lets the program use it.
func withFeatures(model string, fma, avx2 bool) string {
	has := func(yes bool) string {
		if yes {
			return "with"
		}
		return "without"
	}
	return fmt.Sprintf("%s %s FMA, %s AVX2", model, has(fma), has(avx2))
}

// ArchitectureError says that a group learns on another architecture than this program is built
// for. The two round otherwise, so that this member's model would not be the group's.
type ArchitectureError struct {
	Name        string // of the group
	Group, Here string // the architectures
}

func (e *ArchitectureError) Error() string {
	return fmt.Sprintf("group %s learns on %s, and this program is built for %s, where sums are rounded otherwise, so that its model would not be the group's: run this member from a build for %s, or stop the group and begin another one with what it has learned (run --group NAME --from-group %s)",
		e.Name, event.Printable(e.Group), e.Here, event.Printable(e.Group), e.Name)
}

// fits returns an *ArchitectureError if the group's accepted commits are of another architecture
// than this member's.
func (l *running) fits() error {
	if group := l.replica.fold.Architecture(); group != "" && group != l.machine.architecture {
		return &ArchitectureError{l.Config.Name, group, l.machine.architecture}
	}
	return nil
}

package group

// This file describes the machine of a member. A program computes the same bits on all machines of one CPU
// architecture, but may round differently on another architecture.

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

// machine describes the machine of a member.
type machine struct {
	architecture string // architecture of the program
	cpu          string // name of the CPU, for users
}

// thisMachine returns the machine that runs this program.
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

// fuses reports whether the compiler computes x*y+z with a single rounding. On amd64 it does so from GOAMD64=v3 on, and
// such a program therefore counts as another architecture.
//
//go:noinline
func fuses(x, y, z float64) bool { return x*y+z != float64(x*y)+z }

// cpuModel returns the CPU's name from Linux's /proc/cpuinfo, or "".
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

// withFeatures appends the vector features of the CPU to the model name, unless GODEBUG disables them.
func withFeatures(model string, fma, avx2 bool) string {
	has := func(yes bool) string {
		if yes {
			return "with"
		}
		return "without"
	}
	return fmt.Sprintf("%s %s FMA, %s AVX2", model, has(fma), has(avx2))
}

// ArchitectureError reports that a group learns on another CPU architecture than this program. Two architectures round
// differently, so this member's model would not equal the group's model.
type ArchitectureError struct {
	Name        string // name of the group
	Group, Here string // architectures of the group and of this program
}

func (e *ArchitectureError) Error() string {
	return fmt.Sprintf("group %s learns on %s, but this program is built for %s, which rounds sums differently: run a build for %s, or stop the group and start a new one from its state (run --group NAME --from-group %s)",
		e.Name, event.Printable(e.Group), e.Here, event.Printable(e.Group), e.Name)
}

// fits returns an *ArchitectureError if the group's accepted commits are from another architecture than this member's.
func (l *running) fits() error {
	if group := l.replica.fold.Architecture(); group != "" && group != l.machine.architecture {
		return &ArchitectureError{l.Config.Name, group, l.machine.architecture}
	}
	return nil
}

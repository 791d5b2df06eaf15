package event

import (
	"fmt"
	"testing"

	"blankout/internal/must"
)

// TestNamesPrefix checks that a dictionary decoded from its block grows to the same bytes as the original, for several
// lengths. A restart from a checkpoint needs this.
func TestNamesPrefix(t *testing.T) {
	const max = 3000
	hash := func(i int) uint64 { return uint64(i+1) * 0x9e3779b97f4a7c15 }
	add := func(n *Names, from, to int) {
		for i := from; i < to; i++ {
			if name := fmt.Sprint("name", i); n.Wants(hash(i)) {
				n.Add(hash(i), []byte(name))
			}
			must.Require(t, !n.Wants(hash(i)), "wants name %d again", i)
		}
	}
	whole := NewNames(max)
	add(whole, 0, max+10) // the last ten do not fit
	a, b := whole.Find(hash(7)), whole.Find(hash(max))
	must.True(t, a == "name7" && b == "", "found %q and %q", a, b)
	must.Require(t, whole.Len() == max, "%d names, want %d", whole.Len(), max)
	want := string(whole.Blocks()[0].Data)
	for _, count := range []int{0, 1, 511, 1024, max} {
		part := NewNames(max)
		add(part, 0, count)
		view := part.View()
		read := must.Get(ReadNames(view.Blocks()))(t)
		for _, n := range []*Names{part, read} {
			add(n, 0, max+10)
			must.Equal(t, string(n.Blocks()[0].Data), want, "from", count, "names: another dictionary")
		}
		add(view, 100, 200) // must not overwrite later names of the original
		must.Equal(t, string(part.Blocks()[0].Data), want, "adding to a view changed the whole")
	}
	for cut := range 40 {
		must.Fails(t, must.Err(ReadNames([]Block{{"names", []byte(want[:cut])}})), "read a block cut to", cut, "bytes")
	}
	columns := map[uint64]bool{}
	for i := range max {
		columns[hash(i)&(1<<10-1)] = true
	}
	s := NewSchema(10, nil, 2)
	s.Names = whole
	must.Equal(t, s.Collisions(), max-len(columns))
}

// TestSchemaView checks that a View does not change when the Schema grows or drops fields. A Schema that has not grown
// returns the same View.
func TestSchemaView(t *testing.T) {
	for _, labels := range [][]string{{"1", "0"}, {"0", "1"}, {"true", "false"}, {"a", "b"}, {"1", "-1", "5"}} {
		s := NewSchema(10, nil, 2)
		s.Names = NewNames(10)
		var views []*Schema
		var want []string
		for i, label := range append([]string{""}, labels...) {
			s.Class([]byte(label))
			s.AddField(Field{Name: label})
			s.Names.Add(uint64(i+1), []byte("name "+label))
			v := s.View()
			must.True(t, v.View() == v && s.View() == v, "%v: another View of the same Schema", labels)
			views, want = append(views, v), append(want, fmt.Sprintf("%q %v %s", s.Classes, s.Fields, s.Names.Blocks()[0].Data))
			n := len(s.Fields)
			s.AddField(Field{Name: "of a record that is refused"})
			s.DropFields(n)
			own := v.Clone()
			own.AddField(Field{Name: "of a copy"})
			own.Class([]byte("a copy's"))
			own.Names.Add(77, []byte("a copy's"))
		}
		for i, v := range views {
			must.Equal(t, fmt.Sprintf("%q %v %s", v.Classes, v.Fields, v.Names.Blocks()[0].Data), want[i], labels, "after", i, "labels")
		}
	}
}

// TestSchemaViewWhileGrowing reads a View while its Schema grows: the race detector must find nothing.
func TestSchemaViewWhileGrowing(t *testing.T) {
	s := NewSchema(10, nil, 2)
	s.Names = NewNames(1000)
	s.Class([]byte("1"))
	views := make(chan *Schema)
	done := make(chan int)
	go func() {
		n := 0
		for v := range views {
			for _, f := range v.Fields {
				n += len(f.Name)
			}
			n += len(v.Classes[0]) + len(v.Clone().Names.Blocks()[0].Data)
		}
		done <- n
	}()
	for i := range 500 {
		views <- s.View()
		s.AddField(Field{Name: fmt.Sprint("refused ", i)})
		s.DropFields(len(s.Fields) - 1)
		s.AddField(Field{Name: fmt.Sprint("field ", i)})
		s.Names.Add(uint64(i+1), []byte("name"))
		if i == 250 {
			s.Class([]byte("0"))
		}
	}
	close(views)
	<-done
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"words=a fine day":       "words=a fine day",
		`C:\new "x" ü 漢 😀`:       `C:\new "x" ü 漢 😀`,
		"\x1b[2J":                `\x1b[2J`,
		"a\nb\tc\rd\x00":         `a\nb\tc\rd\x00`,
		"\u202ekcab\u009b\u2028": `\u202ekcab\u009b\u2028`,
		"\xff\xc3x\ufffd":        `\xff\xc3x` + "\ufffd",
	} {
		got := Printable(text)
		must.True(t, got == want && Printable(got) == want, "%q: %q, twice %q, want %q", text, got, Printable(got), want)
	}
}

// TestNamer checks that the name of a column consists of all names that hash to the column, or is the column's number.
func TestNamer(t *testing.T) {
	const bits = 4
	s := NewSchema(bits, nil, 2)
	s.Names = NewNames(4)
	for _, n := range []struct {
		hash uint64
		name string
	}{{3, "age"}, {3 + 1<<bits, "color=red"}, {5, "size"}, {3 + 5<<bits, "x"}} {
		must.Require(t, !s.Names.Full(), "full before %q", n.name)
		s.Names.Add(n.hash, []byte(n.name))
	}
	must.True(t, s.Names.Full() && !(*Names)(nil).Full(), "four of four names are not full, or none are")
	for _, tt := range []struct {
		numeric, zeroBased bool
		want               string // name of column 7
	}{{false, false, "#7"}, {true, false, "8"}, {true, true, "7"}} {
		s.NumericIndices, s.ZeroBased = tt.numeric, tt.zeroBased
		name := s.Namer()
		a, b, c := name(3), name(5), name(7)
		must.True(t, a == "age | color=red | x" && b == "size" && c == tt.want, "%+v: columns are called %q, %q and %q", tt, a, b, c)
	}
}

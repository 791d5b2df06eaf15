package model

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
)

// TestTable compares a Table with a map, for random touches, snapshots and a round trip through its encoding.
func TestTable(t *testing.T) {
	for width, rounds := range map[int]int{1: 12, 3: 12, 64: 12, 1000: 3} { // comparing wide rows is slow
		r := rand.New(rand.NewPCG(uint64(width), 1))
		table, model := NewTable(width), map[uint32][]float64{}
		var order, places []uint32
		var snap *Table
		check := func(got *Table, want map[uint32][]float64) {
			t.Helper()
			must.Require(t, got.Len() == len(want), "%d rows, want %d", got.Len(), len(want))
			for i := range got.Len() {
				c, row := got.Column(i)
				must.Require(t, c == order[i] && slices.Equal(row, want[c]) && slices.Equal(got.Row(c), want[c]), "slot %d: column %d differs", i, c)
			}
			must.Require(t, got.Row(1<<31-1) == nil, "a row for a column never touched")
			found := got.Find(append(order[:len(want):len(want)], 1<<31-1), &places, nil)
			must.Require(t, len(found) == len(want)+1 && found[len(want)] == nil, "%d rows found", len(found))
			for i, row := range found[:len(want)] {
				_, own := got.Column(i)
				must.Require(t, &row[0] == &own[0], "slot %d: another row found than its own", i)
			}
		}
		for round := range rounds {
			for range 400 {
				c := uint32(r.IntN(3000))
				if r.IntN(50) == 0 {
					c = uint32(r.IntN(1<<31 - 2))
				}
				if model[c] == nil {
					model[c] = make([]float64, width)
					order = append(order, c)
				}
				k, v := r.IntN(width), r.NormFloat64()
				table.Touch(c)[k] = v
				model[c][k] = v
				if r.IntN(100) == 0 { // write to a block directly after a snapshot
					snap = table.Snapshot(snap)
				}
			}
			snap = table.Snapshot(snap)
			frozen := map[uint32][]float64{}
			for c, row := range model {
				frozen[c] = slices.Clone(row)
			}
			for range 100 {
				c := order[r.IntN(len(order))]
				table.Touch(c)[0]++
				model[c][0]++
			}
			check(snap, frozen)
			check(table, model)
			if round == rounds-1 {
				read := must.Get(ReadTable(width, snap.Blocks()))(t)
				check(read, frozen)
			}
		}
	}
}

// TestReadTableShares checks Tables that share memory: Tables read from the same blocks, their Snapshots, and the Table
// that wrote the blocks. A write to one Table must not change another Table.
func TestReadTableShares(t *testing.T) {
	const width, columns = 30, 20_000
	table := NewTable(width)
	for c := range uint32(columns) {
		table.Touch(c * 7)[c%width] = float64(c)
	}
	snap := table.Snapshot(nil)
	blocks := slices.Collect(snap.EachBlock())
	was := snap.Blocks()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	a, err := ReadTable(width, blocks)
	runtime.ReadMemStats(&after)
	must.Do(t, err)
	grown := int(after.TotalAlloc - before.TotalAlloc)
	must.True(t, grown <= columns*width*8/2, "%d bytes of memory to read rows of %d", grown, columns*width*8)
	b := must.Get(ReadTable(width, blocks))(t)
	early := a.Snapshot(nil)
	_, row := a.Column(columns / 2)
	must.True(t, &row[0] == &early.Row(7 * columns / 2)[0], "a Snapshot copies rows that nobody has written")
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 3000 {
		c := uint32(r.IntN(columns)) * 7
		switch i % 3 {
		case 0:
			a.Touch(c)[0]++
		case 1:
			for _, row := range a.TouchAll([]uint32{c, c + 1, (c + 7000) % (7 * columns)}, nil) {
				row[1]++
			}
		case 2:
			b.Touch(c)[0]--
			table.Touch(c)[2] = -1
		}
	}
	must.True(t, reflect.DeepEqual(a.Snapshot(early).Blocks(), a.Blocks()), "a later Snapshot is not what was written")
	for i := range columns {
		_, row := a.Column(i)
		c, rowB := b.Column(i)
		found := b.Row(c)
		must.Require(t, &found[0] == &rowB[0] && row[0] >= 0 && rowB[0] <= float64(i) && rowB[1] == early.Row(c)[1], "column %d: rows %v and %v", c, row, rowB)
	}
	for name, got := range map[string][]event.Block{"blocks": blocks, "Snapshot": snap.Blocks(), "Snapshot of what was read": early.Blocks()} {
		must.True(t, reflect.DeepEqual(got, was), "%s: written", name)
	}
	// Unaligned memory cannot be shared, so it is copied.
	for i := range blocks {
		blocks[i].Data = append(make([]byte, 1, 1+len(was[i].Data)), was[i].Data...)[1:]
	}
	c, err := ReadTable(width, blocks)
	must.True(t, err == nil && reflect.DeepEqual(c.Blocks(), was), "rows at odd places: %v", err)
}

func TestDerive(t *testing.T) {
	for _, n := range []uint32{0, 1, 5000, 200_000} { // columns in the array and columns in the hash table
		table := NewTable(3)
		for i := range n {
			table.Touch(i * 3)[1] = float64(i)
		}
		want := NewTable(2)
		for i := range n {
			want.Touch(i * 3)[0], want.Touch(i * 3)[1] = 2*float64(i), 1
		}
		got := table.Derive(2, func(to, row []float64) { to[0], to[1] = 2*row[1], 1 })
		must.Require(t, reflect.DeepEqual(got.Blocks(), want.Blocks()) && got.Len() == int(n), "%d columns: other rows in blocks", n)
		must.Require(t, reflect.DeepEqual(got.Fill().Blocks(), want.Blocks()), "%d columns: other rows", n)
		for i := range n {
			c, row := got.Column(int(i))
			must.Require(t, c == i*3 && got.Row(c)[0] == row[0] && got.Row(c+1) == nil, "column %d: %v, %v", c, row, got.Row(c))
		}
	}
}

func TestReadTableRefuses(t *testing.T) {
	table := NewTable(2)
	table.Touch(3)[1] = math.Pi
	table.Touch(9)
	good := table.Blocks()
	for name, damage := range map[string]func(map[string][]byte){
		"no columns":   func(b map[string][]byte) { delete(b, "columns") },
		"no rows":      func(b map[string][]byte) { delete(b, "rows/0000") },
		"rows left":    func(b map[string][]byte) { b["columns"] = nil },
		"half column":  func(b map[string][]byte) { b["columns"] = b["columns"][:6] },
		"short rows":   func(b map[string][]byte) { b["rows/0000"] = b["rows/0000"][:24] },
		"column twice": func(b map[string][]byte) { b["columns"] = []byte{3, 0, 0, 0, 3, 0, 0, 0} },
		"hashed twice": func(b map[string][]byte) { b["columns"] = []byte{3, 0, 0, 3, 3, 0, 0, 3} },
	} {
		blocks := map[string][]byte{}
		for _, b := range good {
			blocks[b.Name] = b.Data
		}
		damage(blocks)
		block := func(name string) event.Block { return event.Block{Name: name, Data: blocks[name]} }
		list := must.Map(slices.Sorted(maps.Keys(blocks)), block)
		must.Fails(t, must.Err(ReadTable(2, list)), name, "read")
	}
	for _, width := range []int{-1, 0, blockBytes/8 + 1, math.MaxInt/8 + 1} { // eight times the last width overflows
		must.ErrorContains(t, must.Err(ReadTable(width, nil)), "rows of", "width", width)
	}
}

// TestReadTableAllocates reads a small file that names a million columns of wide rows but contains no rows. ReadTable
// must reject it before it allocates the rows, which would take 8 GB.
func TestReadTableAllocates(t *testing.T) {
	const width = 1000
	var columns []byte
	for c := range uint32(1 << 20) {
		columns = binary.LittleEndian.AppendUint32(columns, c)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := ReadTable(width, []event.Block{{Name: "columns", Data: columns}, {Name: "rows/0000", Data: make([]byte, 8*width<<NewTable(width).perBits)}})
	runtime.ReadMemStats(&after)
	grown := after.TotalAlloc - before.TotalAlloc
	must.True(t, err != nil && grown <= 4<<20, "%v after %d bytes of memory", err, grown)
}

// TestTablePrefetch prefetches existing and missing rows, in a Table that is large enough to be prefetched.
func TestTablePrefetch(t *testing.T) {
	table := NewTable(70)
	var columns []uint32
	for i := range uint32(5000) {
		columns = append(columns, i*i*7)
		if i%3 != 0 {
			table.Touch(i * i * 7)[i%70] = float64(i)
		}
	}
	want, length := table.Blocks(), table.Len()
	table.Prefetch(event.Vec{})
	table.Prefetch(event.Vec{Index: columns, Value: make([]float64, len(columns))})
	must.True(t, table.Len() == length && reflect.DeepEqual(table.Blocks(), want), "Prefetch changed the Table")
	// TouchAll must create the missing rows, and return the row of each column. The second round touches the columns in
	// reverse order, when other columns are in the table's cache.
	for range 2 {
		rows := table.TouchAll(columns, nil)
		for i, row := range rows {
			must.Require(t, &row[0] == &table.Row(columns[i])[0], "column %d: another row than its own", columns[i])
		}
		table.Prefetch(event.Vec{Index: columns, Value: make([]float64, len(columns))})
		slices.Reverse(columns)
	}
}

// TestSameColumns touches the same columns again and again, in two blocks, with Snapshots in between: each Snapshot has
// what was written before it.
func TestSameColumns(t *testing.T) {
	table, columns := NewTable(1000), must.List(100, func(i int) uint32 { return uint32(7 * i) })
	var snaps []*Table
	var snap *Table
	for round := range 6 {
		for i, row := range table.TouchAll(columns, nil) {
			must.Require(t, row[0] == float64(round) && &row[0] == &table.Row(columns[i])[0], "round %d, column %d: %v", round, i, row[0])
			row[0]++
		}
		if round%2 == 1 {
			table.Touch(columns[0])[1]++ // in the first block only
		}
		snap = table.Snapshot(snap)
		snaps = append(snaps, snap)
	}
	for round, snap := range snaps {
		for _, column := range columns {
			must.True(t, snap.Row(column)[0] == float64(round+1), "Snapshot %d, column %d: %v", round, column, snap.Row(column)[0])
		}
	}
}

// TestDeclare compares Declare with a loop over the readings, for random faults and events. Declare must not change the
// event, and a second call must change nothing.
func TestDeclare(t *testing.T) {
	schema := event.NewSchema(8, []string{"a", "b"}, 2)
	schema.Crosses = [][2]string{{"x", "y"}, {"y", "z"}}
	for _, f := range []event.Field{{Name: "x", Kind: event.Categorical}, {Name: "x", Kind: event.Numeric}, {Name: "y", Kind: event.Numeric}, {Name: "z", Kind: event.Numeric}, {Name: "w", Kind: event.Categorical},
		{Name: "x^y", Kind: event.Cross}, {Name: "y^z", Kind: event.Cross}} {
		schema.AddField(f)
	}
	r := rand.New(rand.NewPCG(1, 2))
	values := []float64{0, 1, -3, 250}
	var room event.Example
	changed := 0
	for range 5000 {
		var stuck []StuckField
		var placeholders []StuckField
		for id := uint16(2); id <= 4; id++ {
			if r.IntN(3) == 0 {
				stuck = append(stuck, StuckField{id, values[r.IntN(4)]})
			}
			if r.IntN(3) == 0 {
				placeholders = append(placeholders, StuckField{id, values[r.IntN(4)]})
			}
		}
		h := Head{Schema: schema, Faults: NewFaults(stuck, placeholders)}
		e := &event.Example{Key: []byte("k"), Weight: 2, Label: 1}
		for id := uint16(1); id < 8; id++ {
			if r.IntN(4) > 0 {
				eventtest.Put(e, uint32(10*id), values[r.IntN(4)], id)
			} else if id > 1 && r.IntN(2) == 0 {
				e.Missing = append(e.Missing, id)
			}
		}
		wantMissing, dead := slices.Clone(e.Missing), map[string]bool{}
		var wantStuck []string
		faulty := func(id uint16, x float64) bool {
			return slices.Contains(stuck, StuckField{id, x}) || slices.Contains(placeholders, StuckField{id, x})
		}
		for i, id := range e.Field {
			if faulty(id, e.Features.Value[i]) {
				dead[schema.Fields[id].Name] = true
				if wantMissing = append(wantMissing, id); id == 2 {
					wantMissing[len(wantMissing)-1] = 1 // the first field with that name
				}
			}
			if slices.Contains(stuck, StuckField{id, e.Features.Value[i]}) {
				wantStuck = append(wantStuck, schema.Fields[id].Name)
			}
		}
		var want []uint16
		for i, id := range e.Field {
			if faulty(id, e.Features.Value[i]) || id == 6 && (dead["x"] || dead["y"]) || id == 7 && (dead["y"] || dead["z"]) {
				continue
			}
			want = append(want, id)
		}
		slices.Sort(wantMissing)
		wantMissing = slices.Compact(wantMissing)
		before := *e
		before.Features, before.Field, before.Missing = e.Features.Clone(), slices.Clone(e.Field), slices.Clone(e.Missing)
		got := h.Declare(e, &room)
		must.Require(t, slices.Equal(got.Field, want) && slices.Equal(got.Missing, wantMissing) && got.Features.Check() == nil && got.Features.Len() == len(want),
			"faults %+v of %+v: fields %v missing %v, want %v and %v", h.Faults, e, got.Field, got.Missing, want, wantMissing)
		for i, id := range got.Field {
			at := slices.Index(e.Field, id)
			must.Require(t, got.Features.Value[i] == e.Features.Value[at] && got.Features.Index[i] == e.Features.Index[at], "field %d: %v", id, got.Features)
		}
		must.Require(t, (got == e) == (len(dead) == 0) && got.Declared == (len(dead) > 0) && string(got.Key) == "k" && got.Weight == 2 && got.Label == 1, "%+v", got)
		must.Require(t, slices.Equal(e.Field, before.Field) && slices.Equal(e.Missing, before.Missing) && slices.Equal(e.Features.Value, before.Features.Value) && !e.Declared, "the event has changed: %+v", e)
		must.Require(t, slices.Equal(h.StuckFields(e), wantStuck), "stuck %v, want %v", h.StuckFields(e), wantStuck)
		if len(dead) > 0 {
			changed++
			must.Require(t, h.Declare(got, &event.Example{}) == got, "what has been declared is declared again")
			names := h.MissingFields(e)
			must.Require(t, slices.Equal(names, h.MissingFields(got)), "missing %v and %v", names, h.MissingFields(got))
		}
	}
	must.True(t, changed >= 1000, "%d events of 5,000 have a fault", changed)
}

// TestFaultsJSON checks that a Faults round-trips through JSON, and that an inconsistent Faults is an error.
func TestFaultsJSON(t *testing.T) {
	f := NewFaults([]StuckField{{2, 0.1}, {9, math.Copysign(0, -1)}}, []StuckField{{1, -999}, {2, 0}})
	data := must.Get(json.Marshal(f))(t)
	var again Faults
	if err := json.Unmarshal(data, &again); err != nil || !slices.Equal(again.Stuck, f.Stuck) || !slices.Equal(again.Placeholders, f.Placeholders) || !again.at(2, 0.1) || !again.at(2, 0) || !again.at(9, 0) || !again.at(1, -999) || again.at(1, 0.1) || again.at(3, 0) {
		t.Errorf("%s: %+v, %v", data, again, err)
	}
	must.True(t, NewFaults(nil, nil) == nil, "no fault is not nil")
	for _, text := range []string{`{"stuck":[{"field":2},{"field":2}]}`, `{"stuck":[{"field":2},{"field":1}]}`, `{"placeholders":[{"field":3},{"field":1}]}`} {
		must.Fails(t, json.Unmarshal([]byte(text), &Faults{}), text, "is taken")
	}
}

package inbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/internal/seglog"
	"blankout/stream"
	"blankout/stream/labels"
	"blankout/stream/record"
)

func open(t *testing.T, dir string, o Options) *Log {
	t.Helper()
	l := must.Get(Open(dir, o))(t)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func events(from, n int) [][]byte {
	return must.List(n, func(i int) []byte { return fmt.Appendf(nil, `{"x":%d,"label":"%d"}`, from+i, (from+i)%2) })
}

func add(t *testing.T, l *Log, key string, events [][]byte) int64 {
	t.Helper()
	return must.Get(l.Append(context.Background(), []string{key}, events))(t).First
}

// read returns the values of column x for n events, from a position on.
func read(t *testing.T, l *Log, from event.Offsets, n int) (values []float64) {
	t.Helper()
	config := record.DefaultConfig()
	s := must.Get(NewSource(l, config, config.Schema(), from))(t)
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var b event.Batch
	for at := from.At(Topic, 0, 0); len(values) < n; {
		must.Do(t, s.Next(ctx, &b))
		for _, e := range b.Examples {
			err := at.Advance(e.Offset, e.Fingerprint)
			must.Require(t, err == nil && e.Label >= 0 && e.Time != 0, "%+v: %v", e, err)
			values = append(values, e.Features.Value[0])
		}
		must.Require(t, at.Next == b.Next, "position %d, the batch ends at %d", at.Next, b.Next)
	}
	return values
}

func count(from, n int) []float64 {
	return must.List(n, func(i int) float64 { return float64(from + i) })
}

func at(next int64) event.Offsets { return event.Offsets{{Topic: Topic, Next: next}} }

// TestAppendAndRead checks that events are read in the order of appending, from any position, over many segments. This
// must also hold after the log is opened again.
func TestAppendAndRead(t *testing.T) {
	dir := t.TempDir()
	o := Options{Segment: 2000}
	l := open(t, dir, o)
	n := 0
	for i := range 60 {
		first := add(t, l, "", events(n, i%7+1))
		must.Require(t, first == int64(n), "event %d, want %d", first, n)
		n += i%7 + 1
	}
	for _, from := range []int{0, 1, 5, 100, n - 1} {
		got := read(t, l, at(int64(from)), n-from)
		must.Require(t, slices.Equal(got, count(from, n-from)), "from %d: %v", from, got)
	}
	must.Do(t, l.Close())
	l = open(t, dir, o)
	must.Require(t, l.Next() == int64(n) && len(l.log.Segments) >= 4, "opened at %d, want %d; %d segments", l.Next(), n, len(l.log.Segments))
	add(t, l, "", events(n, 3))
	got := read(t, l, at(7), n+3-7)
	must.Require(t, slices.Equal(got, count(7, n+3-7)), "%v", got)
	before := len(l.log.Segments)
	err := l.Passed(int64(l.log.Segments[2].Number) - 1)
	must.Require(t, err == nil && len(l.log.Segments) == before-1, "%d of %d segments are left when one has been passed and most of another: %v", len(l.log.Segments), before, err)
	must.Do(t, l.Passed(int64(n)))
	must.Equal(t, len(l.log.Segments), 1, "remaining segments")
	first := l.First()
	must.EqualSlices(t, read(t, l, at(first), n+3-int(first)), count(int(first), n+3-int(first)))
	config := record.DefaultConfig()
	for _, from := range []event.Offsets{at(0), at(int64(n) + 4), nil} {
		must.Fails(t, must.Err(NewSource(l, config, config.Schema(), from)), "a source from", from, "of a log of", first, "to", n+3)
	}
	_, err = NewSource(l, config, config.Schema(), at(int64(n)+4))
	must.ErrorContains(t, err, fmt.Sprintf("the checkpoint continues with event %d, but the log contains events %d to %d", n+4, first, n+3), "beyond the end")
}

// TestIncompleteTail checks a log that is cut at any byte. No acknowledged event may be lost, and either all or no
// events of a request must remain.
func TestIncompleteTail(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	var ends []int64
	for i := range 5 {
		add(t, l, fmt.Sprint("key", i), events(3*i, 3))
		ends = append(ends, l.log.Segments[0].OnDisk)
	}
	must.Do(t, l.Close())
	name := l.log.Segments[0].Name
	whole := must.Get(os.ReadFile(name))(t)
	for size := headBytes; size <= len(whole); size += must.Either(longtest.Asked(), 7, 17) {
		for _, tail := range []string{"", "garbage that was never written so"} {
			copied := t.TempDir()
			must.Do(t, os.WriteFile(filepath.Join(copied, filepath.Base(name)), append(bytes.Clone(whole[:size]), tail...), 0o600))
			l := must.Get(Open(copied, Options{}))(t)
			posts := must.Count(len(ends), func(i int) bool { return int64(size) >= ends[i] })
			must.Require(t, l.Next() == int64(3*posts), "of %d bytes %d events, want %d", size, l.Next(), 3*posts)
			stored, err := l.Append(context.Background(), []string{"key2"}, events(6, 3))
			must.Require(t, stored.Repeated > 0 == (posts > 2) && err == nil, "of %d bytes, %d requests: the third again %v, %v", size, posts, stored, err)
			want := count(0, 3*posts)
			if posts < 3 {
				want = append(want, count(6, 3)...)
			}
			got := read(t, l, nil, len(want))
			must.Require(t, slices.Equal(got, want), "of %d bytes: %v", size, got)
			must.Do(t, l.Close())
		}
	}
}

// TestDamagedSegment checks that damage in a segment other than the last is an error that names the file.
func TestDamagedSegment(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{Segment: 200})
	for i := range 8 {
		add(t, l, "", events(i, 1))
	}
	name := l.log.Segments[0].Name
	must.Do(t, l.Close())
	data := must.Get(os.ReadFile(name))(t)
	for _, spoilt := range [][]byte{data[:len(data)-3], append(bytes.Clone(data[:60]), append([]byte{data[60] ^ 1}, data[61:]...)...), data[:10], data[:headBytes]} {
		must.Do(t, os.WriteFile(name, spoilt, 0o600))
		l := open(t, dir, Options{})
		config := record.DefaultConfig()
		s, err := NewSource(l, config, config.Schema(), at(0))
		if err == nil {
			var b event.Batch
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			err = s.Next(ctx, &b)
			for err == nil && len(b.Examples) > 0 {
				err = s.Next(ctx, &b)
			}
			cancel()
			s.Close()
		}
		damaged := (*DamageError)(nil)
		must.True(t, errors.As(err, &damaged) && strings.Contains(err.Error(), filepath.Base(name)), "%d of %d bytes: %v", len(spoilt), len(data), err)
		must.Do(t, l.Close())
	}
}

// TestRepeatedRequests checks that a repeated request is not stored again: at once, later, after a restart, and after
// its segment is removed.
func TestRepeatedRequests(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{Segment: 300})
	var wait sync.WaitGroup
	firsts := make([]int64, 16)
	for i := range firsts {
		wait.Go(func() { firsts[i] = add(t, l, "same", events(0, 2)) })
	}
	wait.Wait()
	must.Require(t, slices.Equal(firsts, make([]int64, len(firsts))) && l.Next() == 2, "%v, %d events", firsts, l.Next())
	for i := 1; i < 10; i++ {
		add(t, l, fmt.Sprint(i), events(2*i, 2))
	}
	read(t, l, at(0), 20)
	must.Do(t, l.Passed(20))
	must.Do(t, l.Close())
	l = open(t, dir, Options{Segment: 300})
	must.Require(t, l.First() != 0, "no segment has been removed")
	for i, key := range []string{"same", "1", "5", "9"} {
		want := []int64{0, 2, 10, 18}[i]
		stored, err := l.Append(context.Background(), []string{key}, events(int(want), 2))
		must.True(t, stored == (Stored{First: want, Repeated: 2}) && err == nil, "%s: %+v, %v", key, stored, err)
	}
	for i := range maxKeys + 10 {
		l.keys.add(key(hashes([]string{fmt.Sprint("more", i)})), placed{first: int64(i), events: 1})
	}
	_, found := l.keys.find(key(hashes([]string{"more9"})))
	must.True(t, !found && len(l.keys.of) == maxKeys, "%d keys are known", len(l.keys.of))
	_, found = l.keys.find(key(hashes([]string{"more10"})))
	must.True(t, found, "a key of the last is forgotten")
	next := l.Next()
	for i := range 12 { // segments whose heads have all keys
		add(t, l, "", events(int(next)+i, 1))
	}
	must.EqualSlices(t, read(t, l, at(next), 12), count(int(next), 12))
	must.Do(t, l.Close())
	l = open(t, dir, Options{Segment: 300})
	must.Equal(t, len(l.keys.of), maxKeys, "keys after a restart")
}

// faulty is a file that fails on request.
type faulty struct {
	seglog.File
	write, sync *error
}

func (f faulty) WriteAt(p []byte, at int64) (int, error) {
	if *f.write != nil {
		_, _ = f.File.WriteAt(p, at) // the write may be complete although it returns an error
		return len(p) / 2, *f.write
	}
	return f.File.WriteAt(p, at)
}

func (f faulty) Sync() error {
	if *f.sync != nil {
		return *f.sync
	}
	return f.File.Sync()
}

// TestRemovedDirectory checks that no request is acknowledged once the directory or the file of the log is gone.
func TestRemovedDirectory(t *testing.T) {
	for _, gone := range []string{"", "0000000000000000.events", "lock"} {
		dir := filepath.Join(t.TempDir(), "inbox")
		l := open(t, dir, Options{})
		add(t, l, "", events(0, 1))
		must.Do(t, os.RemoveAll(filepath.Join(dir, gone)))
		must.ErrorContains(t, must.Err(l.Append(t.Context(), nil, events(1, 1))), "until the learner restarts", gone)
	}
}

// TestFailingDisk checks that a full disk makes requests fail, and that requests succeed again once there is space.
// After a failed sync, no request may be accepted, and learning must end.
func TestFailingDisk(t *testing.T) {
	dir := t.TempDir()
	var write, sync error
	o := Options{system: seglog.System{Open: func(name string, flag int) (seglog.File, error) {
		f, err := os.OpenFile(name, flag, 0o600)
		return faulty{f, &write, &sync}, err
	}}}
	l := open(t, dir, o)
	add(t, l, "", events(0, 2))
	write = syscall.ENOSPC
	must.ErrorIs(t, must.Err(l.Append(context.Background(), []string{"a"}, events(2, 2))), ErrDiskFull, "a full disk")
	must.Do(t, l.Close())
	l = open(t, dir, o)
	must.True(t, l.Next() == 2, "%d events, of which two were acknowledged", l.Next())
	write = nil
	add(t, l, "a", events(2, 2))
	must.EqualSlices(t, read(t, l, nil, 4), count(0, 4))
	sync = errors.New("input/output error")
	must.ErrorContains(t, must.Err(l.Append(context.Background(), []string{""}, events(4, 2))), "input/output error", "a failed sync")
	sync = nil
	must.Fails(t, must.Err(l.Append(context.Background(), nil, events(4, 2))), "Append after a failed sync")
	config := record.DefaultConfig()
	s := must.Get(NewSource(l, config, config.Schema(), at(4)))(t)
	defer s.Close()
	must.ErrorContains(t, s.Next(context.Background(), &event.Batch{}), "until the learner restarts", "reading after a failed sync")
}

// TestUnreadBytesAreLimited checks the limit of unread bytes, and that only one process can open a log.
func TestUnreadBytesAreLimited(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{Most: 1000})
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		_, err = l.Append(context.Background(), nil, events(n, 1))
	}
	must.Require(t, errors.Is(err, ErrBehind) && n >= 5, "after %d events: %v", n, err)
	read(t, l, nil, n-1)
	add(t, l, "", events(n-1, 1))
	must.ErrorContains(t, must.Err(Open(dir, Options{})), "in use by another learner", "opened twice")
	must.Do(t, l.Close())
	must.ErrorIs(t, must.Err(l.Append(context.Background(), nil, events(0, 1))), ErrClosed, "after the end")
}

func FuzzOpen(f *testing.F) {
	dir := f.TempDir()
	l := must.Get(Open(dir, Options{}))(f)
	must.Get(l.Append(context.Background(), []string{"key"}, events(0, 2)))(f)
	must.Do(f, l.Close())
	data := must.Get(os.ReadFile(l.log.Segments[0].Name))(f)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, filepath.Base(l.log.Segments[0].Name)), data, 0o600))
		l, err := Open(dir, Options{})
		if err != nil {
			return
		}
		defer l.Close()
		config := record.DefaultConfig()
		s, err := NewSource(l, config, config.Schema(), nil)
		if err != nil {
			return
		}
		defer s.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Next(ctx, &event.Batch{})
	})
}

// TestTopicAcceptor checks that events over HTTP go to a topic: each request to one partition, and a repeated request
// only once.
func TestTopicAcceptor(t *testing.T) {
	broker := must.Get(stream.StartEmbedded(stream.EmbeddedConfig{Topics: map[string]int32{"events": 2, "labels": 1}}))(t)
	defer broker.Close()
	config, ctx := record.DefaultConfig(), context.Background()
	config.ID = "id"
	labeled := labels.DefaultConfig()
	acceptor := func() *TopicAcceptor {
		n := must.Get(NewTopicAcceptor(config, labeled.LabelRecord(config), config.Schema, "events", "labels", func(ctx context.Context, topic string) (*stream.Producer, error) {
			c := stream.DefaultProducerConfig()
			c.Brokers, c.Topic, c.BatchBytes = broker.Brokers(), topic, 1<<10
			return stream.NewProducer(ctx, c)
		}))(t)
		t.Cleanup(func() { _ = n.Close() })
		return n
	}
	n := acceptor()
	next := map[int32]int64{}
	type where struct {
		partition int32
		offset    int64
	}
	var places []where
	for i := range 6 {
		size := 1 + 40*(i%3) // more than one batch for some requests
		a, err := n.Accept(ctx, fmt.Sprint(i), events(i, size), false)
		must.Require(t, err == nil && *a.Offset == next[*a.Partition] && a.Events == size && a.Topic == "events", "%+v, offset %d of %d (%v)", a, *a.Offset, *a.Partition, err)
		next[*a.Partition] += int64(size)
		places = append(places, where{*a.Partition, *a.Offset})
		b, err := n.Accept(ctx, fmt.Sprint(i), events(i, size), false)
		must.Require(t, err == nil && b.Again && *b.Offset == *a.Offset, "again: %+v, %v", b, err)
	}
	must.Equal(t, len(next), 2, next)
	label := texts(`{"id":"a","label":1}`)
	a := must.Get(n.Accept(ctx, "1", label, true))(t, "a label with the key of an event")
	must.Require(t, a.Topic == "labels" && !a.Again, "%+v", a)
	_, err := n.Accept(ctx, "1", texts(`{"id":"b","label":1}`), true)
	must.ErrorContains(t, err, "this key was used before", "another label with the key")
	must.Require(t, !must.Get(n.Accept(ctx, "", texts(`{"id":"a","x":1}`, `{"id":"b","x":1}`), false))(t).Again, "IDs")
	n = acceptor() // as after a restart
	for i := range 6 {
		a, err := n.Accept(ctx, fmt.Sprint(i), events(i, 1+40*(i%3)), false)
		must.Require(t, err == nil && a.Again && *a.Offset == places[i].offset && *a.Partition == places[i].partition, "%d: %+v, %v", i, a, err)
	}
	must.Require(t, must.Get(n.Accept(ctx, "1", label, true))(t).Again, "a label again")
	a = must.Get(n.Accept(ctx, "", texts(`{"id":"b","x":1}`, `{"id":"c","x":1}`), false))(t)
	must.Require(t, a.Repeated == 1, "%+v", a)
	_, err = n.Accept(ctx, "", texts(`{"id":"c","x":2}`), false)
	must.ErrorContains(t, err, "its ID belongs to another event", "another event")
	for _, c := range []struct {
		label bool
		event string
	}{{false, `{`}, {true, `{`}, {true, `{"x":1}`}, {true, `{"id":"a","x":1}`}, {true, `{"id":"a","label":null}`}, {true, `{"label":1}`}} {
		_, err := n.Accept(ctx, "", texts(`{"id":"z","label":1}`, c.event), c.label)
		refused, ok := errors.AsType[*RefusedError](err)
		must.Require(t, ok && refused.Event == 1, "%v: %v", c, err)
	}
}

// TestAcceptorSchema checks that an event is rejected if its class exceeds the limit of the acceptor's Schema.
func TestAcceptorSchema(t *testing.T) {
	config := record.DefaultConfig()
	s := config.Schema()
	s.MoreClasses = 5
	l := open(t, t.TempDir(), Options{})
	n := must.Get(NewLogAcceptor(l, config, s))(t)
	for i := range config.MaxClasses + 6 {
		_, err := n.Accept(context.Background(), "", [][]byte{fmt.Appendf(nil, `{"x":1,"label":"c%d"}`, i)}, false)
		must.Require(t, (err != nil) == (i == config.MaxClasses+5), "class %d: %v", i, err)
	}
}

// TestRequestsByEventIDs checks that events of requests without a key are identified by their IDs, one by one. Another
// event with a known ID must be refused, together with its request.
func TestRequestsByEventIDs(t *testing.T) {
	config := record.DefaultConfig()
	config.ID = "id"
	dir := t.TempDir()
	l := open(t, dir, Options{})
	n := must.Get(NewLogAcceptor(l, config, config.Schema()))(t)
	accept := func(key string, first int64, repeated int, events ...string) {
		t.Helper()
		a, err := n.Accept(context.Background(), key, texts(events...), false)
		must.True(t, err == nil && *a.First == first && a.Repeated == repeated && a.Again == (repeated == len(events)) && a.Events == len(events), "%v: %+v, first %d, %v", events, a, *a.First, err)
	}
	refused := func(key string, event int, events ...string) {
		t.Helper()
		next := l.Next()
		_, err := n.Accept(context.Background(), key, texts(events...), false)
		e, ok := errors.AsType[*ReusedError](err)
		must.True(t, ok && e.Event == event && l.Next() == next, "%v: %v, %d events are stored", events, err, l.Next()-next)
	}
	accept("", 0, 0, `{"id":"a","x":1}`, `{"id":"b","x":1}`)
	for range 2 { // again after a restart
		accept("", 0, 2, `{"id":"a","x":1}`, `{"id":"b","x":1}`)
		accept("", 1, 1, `{"id":"b","x":1}`)
		refused("", 0, `{"id":"a","x":2}`)
		refused("", 1, `{"id":"new","x":2}`, `{"id":"b","x":2}`)
		refused("", 1, `{"id":"new","x":2}`, `{"id":"new","x":3}`)
		must.Do(t, l.Close())
		l = open(t, dir, Options{})
		n = must.Get(NewLogAcceptor(l, config, config.Schema()))(t)
	}
	accept("", 2, 2, `{"id":"b","x":1}`, `{"id":"c","x":1}`, `{"id":"c","x":1}`, `{"id":"d","x":1}`)
	accept("", 4, 0, `{"id":"ab","x":1}`)
	accept("key", 5, 0, `{"id":"a","x":1}`)
	accept("key", 5, 1, `{"id":"a","x":1}`)
	refused("key", -1, `{"id":"a","x":2}`)
	refused("key", -1, `{"id":"a","x":1}`, `{"id":"e","x":1}`)
	accept("id a", 6, 0, `{"id":"e","x":1}`) // a key is not an ID
	accept("", 7, 0, `{"x":1}`)
	accept("", 8, 0, `{"x":1}`)
	must.Equal(t, l.Next(), 9, "stored events")
}

func texts(events ...string) [][]byte {
	return must.Map(events, func(e string) []byte { return []byte(e) })
}

// TestRefusedRequestsLeaveNoClass checks that requests that are not stored use up neither classes nor fields.
func TestRefusedRequestsLeaveNoClass(t *testing.T) {
	config := record.DefaultConfig()
	l := open(t, t.TempDir(), Options{Most: 1})
	n := must.Get(NewLogAcceptor(l, config, config.Schema()))(t)
	accept := func(key string, events ...string) error {
		_, err := n.Accept(context.Background(), key, texts(events...), false)
		return err
	}
	must.Do(t, accept("key", `{"x":1,"label":"first"}`))
	for i := range 2 * config.MaxClasses {
		event := fmt.Sprintf(`{"x":1,"x%d":1,"label":"c%d"}`, i, i)
		e, ok := errors.AsType[*RefusedError](accept("", event, `{"x":1e31,"label":"first"}`))
		must.Require(t, ok && e.Event == 1, "request %d: %v", i, e)
		must.ErrorIs(t, accept("", event), ErrBehind, "behind")
		_, ok = errors.AsType[*ReusedError](accept("key", event))
		must.Require(t, ok, "request %d", i)
	}
	must.Equal(t, len(n.check.schema.Fields), 2, "fields")
	l.options.Most = 1 << 20
	for i := range config.MaxClasses - 1 {
		must.Do(t, accept("", fmt.Sprintf(`{"x":1,"label":"true%d"}`, i)))
	}
	must.Fails(t, accept("", `{"x":1,"label":"one more"}`), "more than max_classes")
}

// TestHeaderIsNoEvent checks that a request of CSV may begin with a header, whose columns may have another order or be
// without the label.
func TestHeaderIsNoEvent(t *testing.T) {
	config := record.DefaultConfig()
	config.Format, config.Columns = "csv", []string{"label", "x", "word"}
	l := open(t, t.TempDir(), Options{})
	n := must.Get(NewLogAcceptor(l, config, config.Schema()))(t)
	accept := func(events ...string) (Accepted, error) {
		all := texts(events...)
		return n.Accept(context.Background(), "", all, false)
	}
	must.Equal(t, must.Get(accept("label,x,word", "yes,1,a", "no,2,b"))(t).Events, 2, "events after a header")
	must.Equal(t, must.Get(accept(`"word",x`, `"a,b",3`))(t).Events, 1, "events without the label")
	must.Equal(t, must.Get(accept("yes,4,word"))(t).Events, 1, "events without a header")
	var refused *RefusedError
	_, err := accept("label,x,word")
	must.True(t, errors.As(err, &refused), "%v", err)
	must.Equal(t, l.Next(), int64(4), "stored events")
}

// files returns the files of a log by name, without its lock.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, e := range must.Get(os.ReadDir(dir))(t) {
		if e.Name() != "lock" {
			out[e.Name()] = string(must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t))
		}
	}
	return out
}

// TestFlippedBit flips bits of the last segment. A frame that other frames follow was acknowledged: unless it has been
// learned, opening must fail and leave the file as it is. The end of the last frame cannot be told from a write that was
// interrupted: it is kept in another file. An event that has been learned must never be cut, and its number must not be
// used again.
func TestFlippedBit(t *testing.T) {
	whole := t.TempDir()
	l := open(t, whole, Options{Segment: 900})
	add(t, l, "", events(0, 40)) // beyond the size of a segment
	base := l.next
	ends := []int64{int64(headBytes)}
	for i := range 4 {
		add(t, l, fmt.Sprint("key", i), events(int(base)+3*i, 3))
		ends = append(ends, l.log.Last().OnDisk)
	}
	must.Do(t, l.Close())
	must.Require(t, len(l.log.Segments) == 2 && int64(l.log.Last().Number) == base, "segments %v", l.log.Segments)
	last := filepath.Base(l.log.Last().Name)
	before := files(t, whole)
	for bit := 0; bit < len(before[last]); bit += must.Either(longtest.Asked(), 9, 27) {
		damaged := []byte(before[last])
		damaged[bit] ^= 1 << (bit % 8)
		frame := slices.IndexFunc(ends, func(end int64) bool { return int64(bit) < end }) - 1 // -1 for the head
		for learned := base - 2; learned <= base+12; learned += 2 {
			dir := t.TempDir()
			for name, data := range before {
				must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
			}
			must.Do(t, os.WriteFile(filepath.Join(dir, last), damaged, 0o600))
			l, err := Open(dir, Options{Learned: learned})
			from, to := base+3*int64(frame), base+3*int64(frame)+3 // damaged events
			if frame < 0 {
				from, to = base, base+1
			}
			where := fmt.Sprintf("byte %d of frame %d, learned %d", bit, frame, learned-base)
			switch {
			case learned >= to, frame == 3 && learned <= from:
				must.Require(t, err == nil, "%s: %v", where, err)
				want := must.Either(frame == 3 && learned <= from, from, max(learned, base+12))
				must.Require(t, files(t, dir)[last] == string(damaged), "%s: the file is changed", where)
				must.Equal(t, l.Next(), want, where)
				must.EqualSlices(t, read(t, l, at(learned), int(want-learned)), count(int(learned), int(want-learned)))
				add(t, l, "", events(int(want), 1))
				must.Do(t, l.Close())
				if want == from {
					must.Require(t, files(t, dir)[fmt.Sprintf("%016x.cut", from)] == string(damaged[ends[3]:]), "%s: the end is not kept", where)
				}
				l = open(t, dir, Options{Learned: learned})
				must.Equal(t, l.Next(), want+1, where)
				must.EqualSlices(t, read(t, l, at(learned), int(want+1-learned)), count(int(learned), int(want+1-learned)))
				must.Do(t, l.Close())
			default:
				damage, ok := errors.AsType[*DamageError](err)
				must.Require(t, ok && filepath.Base(damage.File) == last, "%s: %v", where, err)
				after := files(t, dir)
				must.Require(t, len(after) == len(before) && after[last] == string(damaged), "%s: the files are changed", where)
			}
		}
	}
}

// TestLearnedEventsAreNotCut checks that a log that ends before the position of the checkpoint is refused and left as it
// is, wherever it was cut.
func TestLearnedEventsAreNotCut(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	var ends []int64
	for i := range 4 {
		add(t, l, "", events(3*i, 3))
		ends = append(ends, l.log.Segments[0].OnDisk)
	}
	must.Do(t, l.Close())
	name := l.log.Segments[0].Name
	data := must.Get(os.ReadFile(name))(t)
	for _, size := range []int64{ends[1], ends[1] + 5, ends[2] - 1, ends[2]} {
		must.Do(t, os.WriteFile(name, data[:size], 0o600))
		l, err := Open(dir, Options{Learned: 11})
		if err == nil {
			config := record.DefaultConfig()
			_, err = NewSource(l, config, config.Schema(), at(11))
			must.Do(t, l.Close())
		}
		must.Require(t, err != nil && strings.Contains(err.Error(), "event"), "%d bytes: %v", size, err)
		_, ok := errors.AsType[*DamageError](err)
		must.Require(t, ok, "%d bytes: %v", size, err)
		must.Require(t, bytes.Equal(must.Get(os.ReadFile(name))(t), data[:size]), "%d bytes: the file is changed", size)
	}
}

// TestReaderWakes checks that a reader that waits receives a single request.
func TestReaderWakes(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	config := record.DefaultConfig()
	s := must.Get(NewSource(l, config, config.Schema(), nil))(t)
	defer s.Close()
	for i := range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		done := make(chan error)
		go func() {
			var b event.Batch
			done <- s.Next(ctx, &b)
		}()
		time.Sleep(50 * time.Millisecond) // the reader waits
		add(t, l, "", events(i, 1))
		must.Do(t, <-done)
		cancel()
	}
}

// TestPassedKeepsWhatIsRead checks that a segment is not removed while it is read, and is removed afterwards.
func TestPassedKeepsWhatIsRead(t *testing.T) {
	l := open(t, t.TempDir(), Options{Segment: 200})
	for i := range 12 {
		add(t, l, "", events(i, 1))
	}
	config := record.DefaultConfig()
	s := must.Get(NewSource(l, config, config.Schema(), nil))(t)
	defer s.Close()
	n := len(l.log.Segments)
	must.Require(t, n > 2, "%d segments", n)
	must.Do(t, l.Passed(12))
	must.Equal(t, len(l.log.Segments), n, "segments while the first is read")
	var b event.Batch
	must.Do(t, s.Next(context.Background(), &b))
	must.Equal(t, len(b.Examples), 12, "events")
	must.Do(t, l.Passed(12))
	must.Equal(t, len(l.log.Segments), 1, "segments after reading")
}

// TestFirstBigRequest checks that a request that is larger than the limit is accepted if nothing waits. The heads of
// segments do not wait.
func TestFirstBigRequest(t *testing.T) {
	l := open(t, t.TempDir(), Options{Most: 1000, Segment: 500})
	for i := range 3 {
		add(t, l, fmt.Sprint(i), events(100*i, 100))
		must.ErrorIs(t, must.Err(l.Append(context.Background(), nil, events(0, 1))), ErrBehind, "behind a big request")
		read(t, l, at(int64(100*i)), 100)
	}
	l = open(t, t.TempDir(), Options{Most: 100})
	big := [][]byte{bytes.Repeat([]byte{'x'}, 60)}
	must.Get(l.Append(context.Background(), nil, big))(t, "the first of two that exceed the limit together")
	must.Equal(t, l.unread(), int64(frameBytes+postBytes+64), "unread bytes")
}

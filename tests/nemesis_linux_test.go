package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/internal/streamtest"
	"blankout/stream/record"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestNemesis runs the real program with three real brokers for the duration BLANKOUT_NEMESIS. It produces, predicts
// and validates at the same time. Meanwhile the brokers, the network to them, the learner, its disk and the clocks
// fail. The schedule of the faults is random, with seed BLANKOUT_NEMESIS_SEED.
//
// Afterwards all faults are repaired and the history is checked. Every record in the log was learned once or is a dead
// letter. Every acknowledged record is in the log. Versions of models never decreased. No response used a model older
// than promised. Memory did not grow. If the seed is odd, the topic has one partition. The state must then have the
// same bytes as the state of a learner that reads the topic afterwards. If the seed is even, the topic has three
// partitions.
//
// The clocks are wrong by up to an hour. A broker gets another time at each start, through libfaketime if libfaketime
// is installed. Go programs ignore libfaketime. So the learner is built with a modified package time, whose Now adds an
// offset from a file. The learner's clock jumps while the learner runs.
func TestNemesis(t *testing.T) {
	text := os.Getenv("BLANKOUT_NEMESIS")
	if text == "" {
		t.Skip("set BLANKOUT_NEMESIS=10m, say, or make nemesis TIME=10m")
	}
	length, err := time.ParseDuration(text)
	must.Require(t, err == nil && length >= time.Minute, "BLANKOUT_NEMESIS=%q: want a duration of at least 1m", text)
	seed := uint64(1)
	if text := os.Getenv("BLANKOUT_NEMESIS_SEED"); text != "" {
		seed, err = strconv.ParseUint(text, 10, 64)
		must.Require(t, err == nil, "BLANKOUT_NEMESIS_SEED=%q: want a number", text)
	}
	n := newNemesis(t, seed)
	n.start(t)
	defer func() {
		if n.process != nil {
			n.process.Process.Kill()
		}
	}()

	background, stop := context.WithCancel(t.Context())
	defer stop()
	var asking, producing sync.WaitGroup
	asking.Go(func() { n.ask(t, background) })
	produce, enough := context.WithCancel(t.Context())
	defer enough()
	producing.Go(func() { n.produce(t, produce) })

	for time.Since(n.began) < length && !t.Failed() {
		n.step(t)
		time.Sleep(100 * time.Millisecond)
	}
	n.heal(t)
	enough()
	producing.Wait()
	records := n.read(t, "events")
	n.await(t, len(records))
	stop()
	asking.Wait()
	n.stop(t)
	n.compare(t, records)
	fmt.Println(n.report(t, length, records)) // copied into docs/reliability.md
}

const nemesisRate = 300 // records a second

// nemesis is one run of TestNemesis. Only the test's goroutine uses its fields, unless they are marked as shared.
type nemesis struct {
	seed       uint64
	partitions int32
	began      time.Time
	cluster    []*kafkaBroker
	proxies    []*tcpProxy
	direct     *kgo.Client // bypasses the proxies
	admin      *kadm.Client
	url        string
	disk       string // where the learner stores checkpoints and reports
	mounted    bool   // whether disk is a separate small file system
	notes      []string

	*learner
	unit    systemdUnit
	process *exec.Cmd
	ended   chan error
	started time.Time
	due     time.Time // time of the next start, while the program is not running
	asked   string    // how the program was asked to end, "" if it was not
	askedAt time.Time
	stops   time.Duration // the longest duration of a stop
	deaths  map[string]int
	lives   int
	memory  []float64 // in MB, once a second, of processes at least ten seconds old

	lanes  []*lane
	faults map[string]int

	disturbed atomic.Uint64 // shared: number of pauses of the program
	answers   struct {      // used by ask's goroutine until it ends
		good, refused, unreachable, validations int
		compared                                int // responses that were compared with the events learned before
		version                                 uint64
	}
	acked []map[int64]string // shared by the callbacks of one client: keys by offset
	lost  atomic.Int64       // shared: number of records for which the client got no response
}

// lane is a sequence of faults of one kind with pauses between the faults. The sequence is drawn from its own random
// generator.
type lane struct {
	name        string
	r           *rand.Rand
	pause, last [2]time.Duration // shortest and longest
	ready       func() bool      // reports whether the next fault may begin
	begin       func(*rand.Rand) (what string, end func())
	next        time.Time
	end         func() // ends the current fault, nil if there is none
}

func between(r *rand.Rand, limits [2]time.Duration) time.Duration {
	return limits[0] + time.Duration(r.Int64N(int64(limits[1]-limits[0])))
}

func newNemesis(t *testing.T, seed uint64) *nemesis {
	t.Helper()
	n := &nemesis{seed: seed, partitions: 3, unit: readUnit(t), deaths: map[string]int{}, faults: map[string]int{}}
	if seed%2 == 1 {
		n.partitions = 1
	}
	n.acked = make([]map[int64]string, n.partitions)
	for i := range n.acked {
		n.acked[i] = map[int64]string{}
	}

	// The ports stay occupied until the brokers and the proxies start.
	var listeners []net.Listener
	for _, address := range freePorts(t, 7) {
		l := must.Get(net.Listen("tcp", address))(t)
		listeners = append(listeners, l)
	}
	fake, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	setClock := func(b *kafkaBroker, by int) { // takes effect at the broker's next start
		if len(fake) > 0 {
			b.env = []string{"LD_PRELOAD=" + fake[0], fmt.Sprintf("FAKETIME=%+ds", by)}
		}
	}
	n.cluster = startKafkaCluster(t, 3, func(b *kafkaBroker) {
		b.behind, b.proxy = listeners[b.node].Addr().String(), listeners[b.node+3].Addr().String()
		listeners[b.node].Close()
		n.proxies = append(n.proxies, startProxy(t, listeners[b.node+3], b.behind))
	})
	var plain, proxied []string
	for _, b := range n.cluster {
		plain, proxied = append(plain, b.plain), append(proxied, strconv.Quote(b.proxy))
	}
	var err error
	n.direct, err = kgo.NewClient(kgo.SeedBrokers(plain...), kgo.MetadataMinAge(50*time.Millisecond), kgo.RequestTimeoutOverhead(2*time.Second))
	must.Require(t, err == nil, "%v", err)
	t.Cleanup(n.direct.Close)
	n.admin = kadm.NewClient(n.direct)
	enough, forever, compact := "2", "-1", "compact"
	for topic, partitions := range map[string]int32{"events": n.partitions, "dead": 1, "predictions": 1, "snapshots": 1} {
		settings := map[string]*string{"min.insync.replicas": &enough, "retention.ms": &forever}
		if topic == "snapshots" {
			settings["cleanup.policy"] = &compact
		}
		must.Get(n.admin.CreateTopic(t.Context(), partitions, 3, settings, topic))(t, topic)
	}

	// The disk is a file system that is small enough to be filled. If it cannot be mounted, failpoints simulate the
	// faults of the disk.
	n.disk = filepath.Join(t.TempDir(), "disk")
	must.Do(t, os.Mkdir(n.disk, 0o700))
	full, readOnly, slow := filepath.Join(t.TempDir(), "full"), filepath.Join(t.TempDir(), "read-only"), filepath.Join(t.TempDir(), "slow")
	points := []string{"checkpoint.write=slow:" + slow}
	if err := syscall.Mount("tmpfs", n.disk, "tmpfs", 0, "size=24m"); err == nil {
		n.mounted = true
		t.Cleanup(func() {
			n.immutable(t, false)
			err := syscall.Unmount(n.disk, syscall.MNT_DETACH)
			must.True(t, err == nil, "%v", err)
		})
	} else {
		n.notes = append(n.notes, "no file system may be mounted here ("+err.Error()+"): failpoints stand for a disk that is full or read-only")
		points = append(points, "checkpoint.sync=error:"+full, "checkpoint.create=error:"+readOnly)
	}
	toggle := func(file string) func() {
		err := os.WriteFile(file, nil, 0o600)
		must.True(t, err == nil, "%v", err)
		return func() { os.Remove(file) }
	}

	bent := filepath.Join(t.TempDir(), "clock")
	flags := []string{"-tags=failpoint"}
	if overlay, err := overlayTime(t.TempDir()); err != nil {
		n.notes = append(n.notes, "the learner's clock cannot be bent: "+err.Error())
	} else {
		flags = append(flags, "-overlay="+overlay)
	}
	n.learner = &learner{program: buildProgram(t, flags...), dir: t.TempDir(),
		env: []string{"BLANKOUT_FAILPOINTS=" + strings.Join(points, ","), overlayVariable + "=" + bent}}
	config := fmt.Sprintf(`
[kafka]
brokers = [%s]
topics = ["events"]
request_timeout = "2s"
[record]
format = "json"
bits = 16
[checkpoint]
directory = %q
keep = 3
events = 2000
interval = "2s"
[dead_letter]
topic = "dead"
[http]
address = %q
publish_interval = "200ms"
[snapshot]
topic = "snapshots"
interval = "3s"
[predict]
topic = "events"
output = "predictions"
[validate]
events = 20000
window = 5000
directory = %q
`, strings.Join(proxied, ","), n.checkpoints(), listeners[0].Addr(), filepath.Join(n.disk, "reports"))
	must.Do(t, os.WriteFile(filepath.Join(n.learner.dir, "blankout.toml"), []byte(config), 0o600))
	n.url = "http://" + listeners[0].Addr().String()
	listeners[0].Close()

	second := func(from, to int) [2]time.Duration {
		return [2]time.Duration{time.Duration(from) * time.Second, time.Duration(to) * time.Second}
	}
	always := func() bool { return true }
	nothing := func() {}
	n.lanes = []*lane{
		{name: "broker", pause: second(5, 20), last: second(1, 12), ready: func() bool { n.revive(t); return n.inSync(t) }, begin: func(r *rand.Rand) (string, func()) {
			b := n.cluster[r.IntN(len(n.cluster))]
			setClock(b, r.IntN(7200)-3600)
			switch r.IntN(3) {
			case 0:
				b.signal(t, syscall.SIGKILL)
				return "broker killed", func() { b.kill(t); b.launch(t) }
			case 1:
				b.signal(t, syscall.SIGTERM)
				return "broker stopped", func() { b.kill(t); b.launch(t) } // a broker that hangs is killed
			}
			b.signal(t, syscall.SIGSTOP)
			return "broker held", func() { b.signal(t, syscall.SIGCONT) }
		}},
		{name: "network", pause: second(1, 15), last: second(1, 8), ready: always, begin: func(r *rand.Rand) (string, func()) {
			fault := []struct {
				name string
				netFault
			}{
				{"delayed", netFault{delay: time.Duration(20+r.IntN(400)) * time.Millisecond}},
				{"cut", netFault{refuse: true}}, {"black hole", netFault{hole: true}},
				{"answers lost", netFault{deaf: true}}, {"answers torn", netFault{tear: true}},
			}[r.IntN(5)]
			proxies, to := n.proxies, "all brokers"
			if r.IntN(3) > 0 {
				one := r.IntN(len(proxies))
				proxies, to = proxies[one:one+1], "one broker"
			}
			for _, p := range proxies {
				p.set(fault.netFault)
			}
			return "network " + fault.name + ", " + to, func() {
				for _, p := range proxies {
					p.set(netFault{})
				}
			}
		}},
		{name: "disk", pause: second(3, 20), last: second(2, 10), ready: always, begin: func(r *rand.Rand) (string, func()) {
			switch r.IntN(3) {
			case 0:
				if !n.mounted {
					return "disk full", toggle(full)
				}
				filler := filepath.Join(n.disk, "filler")
				f, err := os.Create(filler)
				for piece := make([]byte, 1<<16); err == nil; _, err = f.Write(piece) {
				}
				must.True(t, errors.Is(err, syscall.ENOSPC), "%v", err)
				f.Close()
				return "disk full", func() { os.Remove(filler) }
			case 1:
				if !n.mounted {
					return "disk read-only", toggle(readOnly)
				}
				n.immutable(t, true)
				return "disk read-only", func() { n.immutable(t, false) }
			}
			return "disk slow", toggle(slow)
		}},
		{name: "learner", pause: second(10, 40), last: second(1, 6), ready: func() bool { return n.process != nil && time.Since(n.started) > 5*time.Second }, begin: func(r *rand.Rand) (string, func()) {
			switch r.IntN(3) {
			case 0:
				n.end(t, syscall.SIGKILL)
				return "learner killed", nothing
			case 1:
				n.end(t, syscall.SIGTERM)
				return "learner stopped", nothing
			}
			p := n.process.Process
			p.Signal(syscall.SIGSTOP)
			n.disturbed.Add(1)
			return "learner held", func() { p.Signal(syscall.SIGCONT); n.disturbed.Add(1) }
		}},
		{name: "clock", pause: second(5, 25), last: second(3, 20), ready: always, begin: func(r *rand.Rand) (string, func()) {
			err := os.WriteFile(bent, strconv.AppendInt(nil, int64(r.IntN(7200)-3600), 10), 0o600)
			must.True(t, err == nil, "%v", err)
			return "learner's clock jumps", func() { os.Remove(bent) }
		}},
	}
	if len(fake) == 0 {
		n.notes = append(n.notes, "libfaketime is not installed: the brokers' clocks are right")
	}
	n.began = time.Now()
	for i, l := range n.lanes {
		l.r = rand.New(rand.NewPCG(seed, uint64(i)))
		l.next = n.began.Add(10*time.Second + between(l.r, l.pause))
	}
	return n
}

const overlayVariable = "BLANKOUT_TEST_CLOCK"

// overlayTime returns the file for go build -overlay that gives a program a modified package time. Its function Now
// adds a number of seconds to the time. The number is in a file whose path is in an environment variable.
func overlayTime(dir string) (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return "", err
	}
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if bytes.Count(text, []byte(now)) != 1 {
		return "", fmt.Errorf("%s does not look as expected", source)
	}
	text = bytes.Replace(text, []byte(now), []byte(now+"\tsec += offBy.Load()\n"), 1)
	addition := `package time

import (
	"sync/atomic"
	"syscall"
)

var offBy atomic.Int64

func init() {
	name, ok := syscall.Getenv("` + overlayVariable + `")
	if !ok {
		return
	}
	go func() { // Now is called where no file may be read
		for {
			by, sign := int64(0), int64(1)
			if fd, err := open(name); err == nil {
				var b [20]byte
				n, _ := read(fd, b[:])
				closefd(fd)
				for _, c := range b[:max(n, 0)] {
					switch {
					case c == '-':
						sign = -1
					case '0' <= c && c <= '9':
						by = 10*by + int64(c-'0')
					}
				}
			}
			offBy.Store(sign * by)
			Sleep(50 * Millisecond)
		}
	}()
}
`
	replace := map[string]string{}
	for name, text := range map[string][]byte{"time.go": text, "off.go": []byte(addition)} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(source, name)] = file
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

func (n *nemesis) checkpoints() string { return filepath.Join(n.disk, "checkpoints") }

// immutable forbids or allows creating, renaming and removing files in the learner's directories. The file system
// cannot be made read-only instead, because the learner has its lock file open for writing.
func (n *nemesis) immutable(t *testing.T, on bool) {
	flag := must.Either(on, "+i", "-i")
	for _, dir := range []string{n.disk, n.checkpoints(), filepath.Join(n.disk, "reports")} {
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		out, err := exec.Command("chattr", flag, dir).CombinedOutput()
		must.True(t, err == nil || !on, "chattr: %v\n%s", err, out)
	}
}

// inSync reports whether all replicas of every partition are in sync. A new fault of a broker begins only in this
// state, so that the cluster never loses acknowledged records.
func (n *nemesis) inSync(t *testing.T) bool {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	topics, err := n.admin.ListTopics(ctx)
	if err != nil || len(topics) < 4 {
		return false
	}
	for _, topic := range topics {
		for _, p := range topic.Partitions {
			if len(p.ISR) < 3 {
				return false
			}
		}
	}
	return true
}

// revive restarts brokers that have crashed by themselves. It is called only between two faults.
func (n *nemesis) revive(t *testing.T) {
	for _, b := range n.cluster {
		select {
		case <-b.exited:
			n.say("broker %d had ended by itself: %v", b.node, b.process.ProcessState)
			n.faults["broker ended by itself"]++
			b.launch(t)
		default:
		}
	}
}

// start starts the program.
func (n *nemesis) start(t *testing.T) {
	n.process, n.asked, n.started = n.learner.start(t), "", time.Now()
	n.lives++
	p, ended := n.process, make(chan error, 1)
	n.ended = ended
	go func() { ended <- p.Wait() }()
}

// end sends a signal to the program, and records the signal and the time.
func (n *nemesis) end(t *testing.T, s syscall.Signal) {
	n.asked, n.askedAt = s.String(), time.Now()
	err := n.process.Process.Signal(s)
	must.True(t, err == nil || errors.Is(err, os.ErrProcessDone), "%v", err)
}

func (n *nemesis) say(format string, args ...any) {
	fmt.Printf("%8v %s\n", time.Since(n.began).Round(100*time.Millisecond), fmt.Sprintf(format, args...))
}

// step starts and ends the faults that are due. It restarts the program if the systemd unit would restart it.
func (n *nemesis) step(t *testing.T) {
	for _, l := range n.lanes {
		switch {
		case time.Now().Before(l.next):
		case l.end != nil:
			l.end()
			l.end, l.next = nil, time.Now().Add(between(l.r, l.pause))
			n.say("%s: healed", l.name)
		case l.ready():
			var what string
			lasts := between(l.r, l.last)
			what, l.end = l.begin(l.r)
			l.next = time.Now().Add(lasts)
			n.faults[what]++
			n.say("%s for %v", what, lasts.Round(100*time.Millisecond))
		default:
			l.next = time.Now().Add(time.Second)
		}
	}
	n.watch(t)
}

// watch restarts the program if the program has ended and the systemd unit would restart it. It also samples the memory
// of the program.
func (n *nemesis) watch(t *testing.T) {
	if n.process == nil {
		if time.Now().After(n.due) {
			n.start(t)
		}
		return
	}
	select {
	case err := <-n.ended:
		status := syscall.WaitStatus(0)
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			status = exit.Sys().(syscall.WaitStatus)
		}
		why := fmt.Sprintf("exit code %d", status.ExitStatus())
		if status.Signaled() {
			why = status.Signal().String()
		}
		if !status.Signaled() && status.ExitStatus() != 0 {
			why += ": " + shorten(n.lastLine())
		}
		switch {
		case n.asked == syscall.SIGTERM.String() && !status.Signaled() && status.ExitStatus() <= 1:
			n.stops = max(n.stops, time.Since(n.askedAt))
		case n.asked == syscall.SIGKILL.String() && status.Signaled() && status.Signal() == syscall.SIGKILL:
		case status.Signaled() || n.asked == "" && !n.unit.restarts(status) || n.asked != "":
			t.Errorf("the program ended: %s (told: %q)\n%s", why, n.asked, n.tail(20000))
		}
		n.deaths[why]++
		n.say("learner ended: %s", why)
		n.process, n.due = nil, time.Now().Add(time.Second)
		return
	default:
	}
	if n.asked != "" && time.Since(n.askedAt) > 90*time.Second {
		n.process.Process.Signal(syscall.SIGQUIT)
		<-n.ended
		t.Fatalf("the program does not stop\n%s", n.tail(50000))
	}
	if age := time.Since(n.started); age > 10*time.Second && len(n.memory) < int(time.Since(n.began)/time.Second) {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", n.process.Process.Pid)); err == nil {
			var size, resident float64
			if _, err := fmt.Sscan(string(text), &size, &resident); err == nil {
				n.memory = append(n.memory, resident*float64(os.Getpagesize())/1e6)
			}
		}
	}
}

// tail returns the last bytes of the program's log.
func (n *nemesis) tail(bytes int64) string {
	f, err := os.Open(filepath.Join(n.dir, "log"))
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		f.Seek(max(0, info.Size()-bytes), io.SeekStart)
	}
	text, _ := io.ReadAll(f)
	return string(text)
}

func (n *nemesis) lastLine() string { return lastLine(n.tail(5000)) }

// shorten returns the part of an error message that does not change between occurrences.
func shorten(line string) string {
	line = strings.TrimPrefix(line, "blankout: ")
	fields := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' })
	for i, f := range fields {
		if strings.ContainsAny(f, "0123456789") {
			fields[i] = "…"
		}
	}
	if len(fields) > 24 {
		fields = fields[:24]
	}
	return strings.Join(fields, " ")
}

// produce writes records through the proxies until ctx ends. Then it waits until all records are acknowledged.
func (n *nemesis) produce(t *testing.T, ctx context.Context) {
	seeds := must.Map(n.cluster, func(b *kafkaBroker) string { return b.proxy })
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.DefaultProduceTopic("events"), kgo.MaxBufferedRecords(5000),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.RequestTimeoutOverhead(3*time.Second), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	r := rand.New(rand.NewPCG(n.seed, 100))
	for i := 0; ctx.Err() == nil; {
		for range nemesisRate / 20 {
			value := "{spoilt"
			if i%crashRefused != 5 {
				x, y := r.NormFloat64(), r.NormFloat64()
				value = fmt.Sprintf(`{"label":%q,"x":%.4f,"y":%.4f,"shop":"s%d","words":["w%d","w%d"]}`,
					strconv.FormatBool(x+0.3*r.NormFloat64() > 0), x, y, r.IntN(50), r.IntN(2000), r.IntN(2000))
			}
			key := strconv.Itoa(i)
			client.Produce(t.Context(), &kgo.Record{Key: []byte(key), Value: []byte(value)}, func(r *kgo.Record, err error) {
				if err != nil {
					n.lost.Add(1)
					return
				}
				n.acked[r.Partition][r.Offset] = key // callbacks run one after the other
			})
			i++
		}
		time.Sleep(50 * time.Millisecond)
	}
	flush, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	err = client.Flush(flush)
	must.True(t, err == nil, "not all records were acknowledged after the last fault: %v", err)
}

// staleAfter is the longest time until the served model includes a learned event, while the learner is ready. It is
// fifty times publish_interval, because the machine may be busy.
const staleAfter = 10 * time.Second

// ask requests predictions and validations until ctx ends, and checks the responses. The version of the model in a
// response must never decrease. The model must include all events that were learned more than staleAfter before.
func (n *nemesis) ask(t *testing.T, ctx context.Context) {
	type mark struct {
		at        time.Time
		life      uint64
		events    float64
		disturbed uint64
	}
	var marks []mark // only of times in which the learner was always ready
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	call := func(method, path, body string) (int, []byte) {
		request, err := http.NewRequestWithContext(ctx, method, n.url+path, strings.NewReader(body))
		if err != nil {
			return 0, nil
		}
		response, err := client.Do(request)
		if err != nil {
			return 0, nil
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			return 0, nil
		}
		return response.StatusCode, text
	}
	events := uint64(0)
	for turn := 0; ctx.Err() == nil; turn++ {
		asked := time.Now()
		status, text := call("POST", "/v1/predict", `{"x":0.5,"y":-1,"shop":"s1","words":["w1","w2"]}`)
		var answer struct {
			Version, Events uint64
			Predictions     []struct{ Class string }
		}
		a := &n.answers
		switch {
		case status == 0:
			a.unreachable++
		case status == http.StatusServiceUnavailable:
			a.refused++
		case status != http.StatusOK || json.Unmarshal(text, &answer) != nil || len(answer.Predictions) != 1:
			t.Errorf("a prediction: %d %s", status, text)
		default:
			a.good++
			must.True(t, answer.Version >= a.version && (answer.Version>>32 != a.version>>32 || answer.Events >= events),
				"an answer of version %d (%d events) after one of version %d (%d events)", answer.Version, answer.Events, a.version, events)
			a.version, events = answer.Version, answer.Events
			for len(marks) > 0 && asked.Sub(marks[0].at) > staleAfter {
				if m := marks[0]; m.life == answer.Version>>32 && m.disturbed == n.disturbed.Load() && m.events > 0 {
					a.compared++
					must.True(t, float64(answer.Events) >= m.events,
						"an answer of version %d knows %d events; %v before, %.0f had been learned", answer.Version, answer.Events, asked.Sub(m.at), m.events)
				}
				marks = marks[1:]
			}
		}
		if turn%10 == 0 {
			at, disturbed := time.Now(), n.disturbed.Load()
			ready, _ := call("GET", "/readyz", "")
			code, metrics := call("GET", "/metrics", "")
			if ready == http.StatusOK && code == http.StatusOK {
				m := metricsOf(metrics)
				marks = append(marks, mark{at, uint64(m["blankout_model_version"]) >> 32, m["blankout_learner_events"], disturbed})
			} else {
				marks = nil
			}
		}
		if turn%200 == 100 {
			switch status, text := call("POST", "/v1/validate", ""); status {
			case http.StatusAccepted:
				a.validations++
			case 0, http.StatusConflict, http.StatusServiceUnavailable:
			default:
				t.Errorf("asked for a validation: %d %s", status, text)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// heal ends all faults and waits until the brokers work.
func (n *nemesis) heal(t *testing.T) {
	for _, l := range n.lanes {
		if l.end != nil {
			l.end()
			l.end = nil
		}
		l.next = time.Now().Add(24 * time.Hour)
	}
	n.say("all healed")
	for began := time.Now(); !n.inSync(t); time.Sleep(200 * time.Millisecond) {
		must.Require(t, time.Since(began) <= 3*time.Minute, "the brokers do not come to terms")
		n.revive(t)
		n.watch(t)
	}
}

// read returns all records of a topic, bypassing the proxies, sorted by partition and offset.
func (n *nemesis) read(t *testing.T, topic string) (records []*kgo.Record) {
	t.Helper()
	ends := must.Get(n.admin.ListEndOffsets(t.Context(), topic))(t)
	missing := int64(0)
	from := map[string]map[int32]kgo.Offset{topic: {}}
	ends.Each(func(o kadm.ListedOffset) {
		missing += o.Offset
		from[topic][o.Partition] = kgo.NewOffset().At(0)
	})
	client := streamtest.Client(t, []string{n.cluster[0].plain, n.cluster[1].plain, n.cluster[2].plain}, kgo.ConsumePartitions(from))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for int64(len(records)) < missing {
		fetches := client.PollFetches(ctx)
		must.Require(t, ctx.Err() == nil, "%s: %d of %d records could be read", topic, len(records), missing)
		records = append(records, fetches.Records()...)
	}
	slices.SortFunc(records, func(a, b *kgo.Record) int {
		return must.Either(a.Partition != b.Partition, int(a.Partition)-int(b.Partition), int(a.Offset-b.Offset))
	})
	return records
}

// await waits until the learner has counted this number of records and has predicted all of them.
func (n *nemesis) await(t *testing.T, records int) {
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	counted, predicted := 0.0, int64(0)
	for began := time.Now(); int(counted) < records || predicted < int64(records); time.Sleep(300 * time.Millisecond) {
		if time.Since(began) > 5*time.Minute || t.Failed() {
			t.Fatalf("%d records: %.0f counted in, predicted up to %d\n%s", records, counted, predicted, n.tail(5000))
		}
		n.watch(t)
		if response, err := client.Get(n.url + "/metrics"); err == nil {
			text, _ := io.ReadAll(response.Body)
			response.Body.Close()
			counted = metricsOf(text)["blankout_partition_records"]
		}
		if committed, err := n.admin.FetchOffsets(t.Context(), "blankout-predict"); err == nil {
			predicted = 0
			committed.Each(func(o kadm.OffsetResponse) { predicted += o.At })
		}
	}
}

// stop ends the program with SIGTERM. The program must save a checkpoint if there are no faults.
func (n *nemesis) stop(t *testing.T) {
	must.Require(t, n.process != nil, "the program does not run at the end")
	n.end(t, syscall.SIGTERM)
	if err := <-n.ended; err != nil {
		t.Errorf("the last stop: %v\n%s", err, n.tail(5000))
	}
	n.stops = max(n.stops, time.Since(n.askedAt))
}

// compare checks the history of the run, as described at TestNemesis.
func (n *nemesis) compare(t *testing.T, records []*kgo.Record) {
	// Every acknowledged record is in the log once.
	keys := map[string]bool{}
	spoilt := map[string]bool{}
	var want event.Offsets
	for _, r := range records {
		must.True(t, !keys[string(r.Key)] || n.lost.Load() != 0, "record %s was written twice", r.Key)
		keys[string(r.Key)] = true
		key, ok := n.acked[r.Partition][r.Offset]
		must.True(t, !ok || key == string(r.Key), "partition %d offset %d holds record %s, acknowledged was %s", r.Partition, r.Offset, r.Key, key)
		delete(n.acked[r.Partition], r.Offset)
		if string(r.Value) == "{spoilt" {
			spoilt[fmt.Sprint(r.Partition, "/", r.Offset)] = true
		}
		p := want.At("events", r.Partition, 0)
		p.Next, p.Records, p.Sum = r.Offset+1, p.Records+1, p.Sum+record.Fingerprint(r.Offset, r.Key, r.Value)
	}
	for partition, left := range n.acked {
		must.True(t, len(left) <= 0, "partition %d: %d acknowledged records are not in the log", partition, len(left))
	}
	// Every record in the log was learned once or is a dead letter.
	state, offsets, events := n.state(t)
	got := slices.Clone(offsets)
	for i := range got {
		got[i].TopicID = ""
	}
	must.True(t, slices.Equal(got, want) && events == uint64(len(records)-len(spoilt)), "the learner counted %+v and learned %d\nthe log holds %+v and %d", got, events, want, len(records)-len(spoilt))
	dead := map[string]bool{}
	for _, r := range n.read(t, "dead") {
		headers := map[string]string{}
		for _, h := range r.Headers {
			headers[h.Key] = string(h.Value)
		}
		dead[headers["partition"]+"/"+headers["offset"]] = true
	}
	must.EqualMaps(t, dead, spoilt, "dead letters")
	// Every event was predicted.
	predicted := map[string]bool{}
	for _, r := range n.read(t, "predictions") {
		var p struct{ Partition, Offset int64 }
		must.Do(t, json.Unmarshal(r.Value, &p), "a prediction", r.Value)
		predicted[fmt.Sprint(p.Partition, "/", p.Offset)] = true
	}
	must.Equal(t, len(predicted), len(records), "predicted records")
	// A learner without faults must reach the same state.
	reference := &learner{program: n.program, dir: n.dir + "/undisturbed"}
	must.Do(t, os.Mkdir(reference.dir, 0o700))
	must.Do(t, os.WriteFile(filepath.Join(reference.dir, "blankout.toml"), must.Get(os.ReadFile(filepath.Join(n.dir, "blankout.toml")))(t), 0o600))
	reference.flags = []string{"--until-end", "--set=kafka.brokers=" + n.cluster[0].plain, "--set=checkpoint.directory=" + reference.checkpoints(), "--set=checkpoint.interval=30s",
		"--set=checkpoint.events=1000000", "--set=http.address=", "--set=dead_letter.policy=skip", "--set=dead_letter.topic=", "--set=snapshot.topic=",
		"--set=predict.topic=", "--set=predict.output=", "--set=validate.directory="}
	reference.finish(t)
	undisturbed, theirs, learned := reference.state(t)
	must.True(t, slices.Equal(offsets, theirs) && events == learned, "the learner counted %+v and learned %d, an undisturbed one %+v and %d", offsets, events, theirs, learned)
	must.True(t, n.partitions != 1 || bytes.Equal(state, undisturbed), "the state differs from an undisturbed learner's in %s", differingBlocks(state, undisturbed))
	// Fail if the run had too few faults and responses to test much.
	must.True(t, n.answers.good >= 100 && n.answers.compared != 0 && len(n.faults) >= 4 && len(spoilt) != 0 && (n.lives >= 2 || time.Since(n.began) <= 5*time.Minute),
		"this tests little: %d answers, %d compared, faults %v, %d lives", n.answers.good, n.answers.compared, n.faults, n.lives)
}

// state returns the learner's state, read from the disk of this run.
func (n *nemesis) state(t *testing.T) ([]byte, event.Offsets, uint64) {
	l := &learner{dir: n.disk}
	names, err := checkpoint.List(n.checkpoints())
	must.Require(t, err == nil && len(names) != 0, "checkpoints %v: %v", names, err)
	return l.state(t)
}

func (n *nemesis) report(t *testing.T, length time.Duration, records []*kgo.Record) string {
	var out strings.Builder
	fmt.Fprintf(&out, "\nseed %d, %v, %d partitions: %d records, %d lives of the learner, longest stop %v\n", n.seed, length, n.partitions, len(records), n.lives, n.stops.Round(100*time.Millisecond))
	a := n.answers
	fmt.Fprintf(&out, "predictions over HTTP: %d answered, %d refused (503), %d while it was not there, %d compared with what had been learned; %d validations asked for; records of unknown fate %d\n",
		a.good, a.refused, a.unreachable, a.compared, a.validations, n.lost.Load())
	log := n.log()
	fmt.Fprintf(&out, "checkpoints saved %d, failed %d; validations %d\n", strings.Count(log, `"msg":"checkpoint saved"`), strings.Count(log, "a checkpoint could not be saved"), strings.Count(log, `"msg":"validated"`))
	if quarter := len(n.memory) / 4; quarter > 10 {
		second, last := slices.Clone(n.memory[quarter:2*quarter]), slices.Clone(n.memory[3*quarter:])
		slices.Sort(second)
		slices.Sort(last)
		early, late := second[len(second)/2], last[len(last)/2]
		fmt.Fprintf(&out, "memory, MB: second quarter %.0f, last quarter %.0f, most %.0f\n", early, late, slices.Max(n.memory))
		must.True(t, late <= 1.2*early+20, "memory grows")
	}
	for _, counts := range []map[string]int{n.faults, n.deaths} {
		fmt.Fprintln(&out)
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&out, "| %s | %d |\n", what, counts[what])
		}
	}
	for _, note := range n.notes {
		fmt.Fprintln(&out, note)
	}
	return out.String()
}

package tests

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/internal/streamtest"
)

// This file runs a real Apache Kafka broker in KRaft mode. The broker listens on the loopback interface, keeps its data
// in the test's directory, and ends with the test binary. Its 46 jars (44 MB) are in the user's cache.
//
// If requireKafka is set, Maven downloads missing jars, and a missing broker is a failure. Otherwise these tests run
// only as long tests, and only if java and the jars are present.

// requireKafka is the environment variable that makes these tests fail, rather than skip, without the real broker. Its
// value must be 1.
const requireKafka = "BLANKOUT_REQUIRE_KAFKA"

// kafkaBroker is one node that is both broker and controller. It can be stopped, killed, paused and restarted with the
// same data and ports.
type kafkaBroker struct {
	node       int // its ID, from 1
	cluster    []*kafkaBroker
	dir, libs  string
	plain      string // address of the listener without TLS
	sasl       string
	tls        string // address of the listener with TLS and SASL
	authority  string // PEM file of the authority that signed the broker's certificate
	password   string // password of the user alice
	process    *exec.Cmd
	exited     chan struct{}
	controller string
	// behind is another listener without TLS, to which the broker directs clients through proxy. Both fields are "" if
	// there is no proxy.
	behind, proxy string
	env           []string // additional environment variables of the broker
}

func startKafka(t *testing.T) *kafkaBroker { return startKafkaCluster(t, 1)[0] }

// startKafkaCluster starts the nodes of a cluster. It calls each function of prepare with every node before the start.
func startKafkaCluster(t *testing.T, nodes int, prepare ...func(*kafkaBroker)) []*kafkaBroker {
	t.Helper()
	required := os.Getenv(requireKafka) == "1"
	if !required {
		longtest.Only(t)
	}
	libs, err := kafkaJars(t.Context(), required)
	switch {
	case err != nil && required:
		t.Fatalf("%s is set: %v", requireKafka, err)
	case err != nil:
		t.Skipf("no real Kafka broker: %v", err)
	}
	id := make([]byte, 16)
	rand.Read(id)
	id[0] &= 0x7f // the text of the ID must not begin with "-"
	cluster := make([]*kafkaBroker, nodes)
	for i, ports := 0, freePorts(t, 4*nodes); i < nodes; i, ports = i+1, ports[4:] {
		cluster[i] = &kafkaBroker{node: i + 1, cluster: cluster, dir: t.TempDir(), libs: libs, password: "alices-secret",
			plain: ports[0], controller: ports[1], sasl: ports[2], tls: ports[3]}
	}
	for _, b := range cluster {
		for _, f := range prepare {
			f(b)
		}
		b.writeCertificates(t)
		b.writeConfig(t)
		format := []string{"-cp", b.libs + "/*", "kafka.tools.StorageTool", "format",
			"-t", base64.RawURLEncoding.EncodeToString(id), "-c", b.file("server.properties")}
		for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			format = append(format, "--add-scram", fmt.Sprintf("%s=[name=alice,password=%s]", mechanism, b.password))
		}
		out, err := exec.CommandContext(t.Context(), "java", format...).CombinedOutput()
		must.Require(t, err == nil, "formatting the broker's storage: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		for _, b := range cluster {
			if b.process != nil {
				b.kill(t)
			}
			if t.Failed() {
				log, _ := os.ReadFile(b.file("broker.log"))
				t.Logf("end of the log of broker %d:\n%s", b.node, log[max(0, len(log)-8000):])
			}
		}
	})
	for _, b := range cluster {
		b.launch(t)
	}
	for _, b := range cluster {
		b.await(t)
	}
	return cluster
}

func (b *kafkaBroker) file(name string) string { return filepath.Join(b.dir, name) }

// kafkaJars returns the directory of the broker's jars. If they are missing and fetch is true, Maven downloads them.
func kafkaJars(ctx context.Context, fetch bool) (string, error) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", errors.New("java is not installed")
	}
	pom, err := filepath.Abs("testdata/kafka/pom.xml")
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(pom)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	parent := filepath.Join(cache, "blankout-tests")
	libs := filepath.Join(parent, fmt.Sprintf("kafka-%x", sha256.Sum256(text))[:22])
	if _, err := os.Stat(libs); err == nil {
		return libs, nil
	}
	if !fetch {
		return "", fmt.Errorf("its jars are not in %s; with %s=1 Maven (mvn) fetches them there, once, 44 MB from the repository that it is set up with", libs, requireKafka)
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return "", fmt.Errorf("its jars are not in %s, and mvn, which fetches them, is not installed", libs)
	}
	// The jars are first copied under another name, so that an interrupted copy is not mistaken for a complete one.
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	partial, err := os.MkdirTemp(parent, "partial-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(partial)
	if err := os.Chmod(partial, 0o755); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+partial).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("mvn could not fetch the jars: %w\n%s", err, out)
	}
	if err := os.Rename(partial, libs); err != nil && !errors.Is(err, os.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return "", err
	}
	return libs, nil
}

// freePorts returns free loopback addresses below the range of outgoing connections. So no other process takes the port
// of a broker while the broker is down.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var addresses []string
	for port := 20000 + os.Getpid()%10000; len(addresses) < n; port++ {
		must.Require(t, port < 32000, "no free ports between 20000 and 32000")
		address := fmt.Sprintf("127.0.0.1:%d", port)
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// writeCertificates creates a certificate authority and the broker's certificate.
func (b *kafkaBroker) writeCertificates(t *testing.T) {
	t.Helper()
	b.authority = b.file("ca.pem")
	a := streamtest.NewAuthority(t)
	certificate, key := a.Sign(t, "broker")
	must.Do(t, os.WriteFile(b.authority, a.PEM, 0o600))
	must.Do(t, os.WriteFile(b.file("server.pem"), slices.Concat(key, certificate, a.PEM), 0o600))
}

func (b *kafkaBroker) writeConfig(t *testing.T) {
	t.Helper()
	plain := "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"" + b.password + "\";"
	scram := "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	voters := must.Map(b.cluster, func(b *kafkaBroker) string { return fmt.Sprintf("%d@%s", b.node, b.controller) })
	copies := strconv.Itoa(len(b.cluster))
	config := []string{
		"process.roles=broker,controller", "node.id=" + strconv.Itoa(b.node),
		"controller.quorum.voters=" + strings.Join(voters, ","), "controller.listener.names=CONTROLLER",
		"listeners=PLAINTEXT://" + b.plain + ",SASL_PLAINTEXT://" + b.sasl + ",SASL_SSL://" + b.tls + ",CONTROLLER://" + b.controller + proxied(b.behind),
		"advertised.listeners=PLAINTEXT://" + b.plain + ",SASL_PLAINTEXT://" + b.sasl + ",SASL_SSL://" + b.tls + proxied(b.proxy),
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name=PLAINTEXT",
		"log.dirs=" + b.file("data"), "auto.create.topics.enable=false", "default.replication.factor=" + copies,
		"offsets.topic.num.partitions=1", "offsets.topic.replication.factor=" + copies,
		"transaction.state.log.num.partitions=1", "transaction.state.log.replication.factor=" + copies, "transaction.state.log.min.isr=1",
		"group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=100", "num.network.threads=2", "num.io.threads=2",
		// The registration of a killed broker must expire before the broker can register again.
		fmt.Sprint("broker.session.timeout.ms=", 1000*len(b.cluster)), fmt.Sprint("broker.heartbeat.interval.ms=", 100+200*(len(b.cluster)-1)),
		"log.cleaner.dedupe.buffer.size=8388608", "log.cleaner.backoff.ms=200",
		"log.retention.check.interval.ms=300", "log.initial.task.delay.ms=300",
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + b.file("server.pem"),
		"ssl.truststore.type=PEM", "ssl.truststore.location=" + b.authority,
	}
	for _, listener := range []string{"sasl_plaintext", "sasl_ssl"} {
		config = append(config,
			"listener.name."+listener+".sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
			"listener.name."+listener+".plain.sasl.jaas.config="+plain,
			"listener.name."+listener+".scram-sha-256.sasl.jaas.config="+scram,
			"listener.name."+listener+".scram-sha-512.sasl.jaas.config="+scram)
	}
	logging := `Configuration: {Appenders: {Console: {name: C, target: SYSTEM_OUT, PatternLayout: {pattern: "%d{HH:mm:ss.SSS} %p %c{1} %m%n"}}},
Loggers: {Root: {level: info, AppenderRef: {ref: C}}}}
`
	for name, text := range map[string]string{"server.properties": strings.Join(config, "\n") + "\n", "log4j2.yaml": logging} {
		must.Do(t, os.WriteFile(b.file(name), []byte(text), 0o600))
	}
}

func proxied(address string) string { return must.Either(address == "", "", ",PROXIED://"+address) }

// start starts the broker and waits until the broker works.
func (b *kafkaBroker) start(t *testing.T) {
	t.Helper()
	b.launch(t)
	b.await(t)
}

func (b *kafkaBroker) launch(t *testing.T) {
	t.Helper()
	log := must.Get(os.OpenFile(b.file("broker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
	defer log.Close()
	b.process = exec.Command("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
		"-Dlog4j2.configurationFile="+b.file("log4j2.yaml"), "-cp", b.libs+"/*", "kafka.Kafka", b.file("server.properties"))
	b.process.Stdout, b.process.Stderr = log, log
	b.process.Env = append(os.Environ(), b.env...)
	b.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.Do(t, b.process.Start())
	b.exited = make(chan struct{})
	go func(p *exec.Cmd, exited chan struct{}) {
		p.Wait()
		close(exited)
	}(b.process, b.exited)
}

func (b *kafkaBroker) await(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for {
		err := b.ready(t.Context())
		if err == nil {
			return
		}
		select {
		case <-b.exited:
			t.Fatalf("the broker ended: %v", b.process.ProcessState)
		case <-time.After(50 * time.Millisecond):
		}
		must.Require(t, !time.Now().After(deadline), "the broker is not ready: %v", err)
	}
}

// ready requests the metadata and the offsets of a group, which makes the broker create the offsets topic. Each call
// uses a new Transport, because a Transport caches responses.
func (b *kafkaBroker) ready(ctx context.Context) error {
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(b.plain), Timeout: 5 * time.Second, Transport: transport}
	m, err := client.Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return err
	}
	if len(m.Brokers) != len(b.cluster) {
		return fmt.Errorf("%d brokers", len(m.Brokers))
	}
	r, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: "ready", Topics: map[string][]int{"none": {0}}})
	if err != nil {
		return err
	}
	return r.Error
}

func (b *kafkaBroker) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	err := b.process.Process.Signal(signal)
	must.True(t, err == nil || errors.Is(err, os.ErrProcessDone), "%v", err)
	<-b.exited
	b.process = nil
}

func (b *kafkaBroker) stop(t *testing.T) { t.Helper(); b.end(t, syscall.SIGTERM) }
func (b *kafkaBroker) kill(t *testing.T) { t.Helper(); b.end(t, syscall.SIGKILL) }

// hold pauses the broker's process for a while. Connections stay open, but the broker does not respond.
func (b *kafkaBroker) hold(t *testing.T, d time.Duration) {
	t.Helper()
	b.signal(t, syscall.SIGSTOP)
	time.Sleep(d)
	b.signal(t, syscall.SIGCONT)
}

func (b *kafkaBroker) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	must.Do(t, b.process.Process.Signal(s))
}

// TestKafkaJarsAreNotFetchedUnasked checks that the real broker's jars are not downloaded unless the user requests
// this. The message must explain how to request the download, and name the source and the target of the download.
func TestKafkaJarsAreNotFetchedUnasked(t *testing.T) {
	dir := t.TempDir()
	cache, called := filepath.Join(dir, "cache"), filepath.Join(dir, "called")
	for name, script := range map[string]string{
		"java": "exit 1",
		"mvn":  "echo \"$@\" > " + called + "; exit 1",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", cache)
	_, err := kafkaJars(t.Context(), false)
	for _, want := range []string{requireKafka + "=1", cache, "44 MB", "repository"} {
		must.ErrorContains(t, err, want, "unasked")
	}
	for _, path := range []string{called, cache} {
		must.Fails(t, must.Err(os.Stat(path)), "the file without a request", path)
	}
	// If the user requests it, the download is attempted.
	must.ErrorContains(t, must.Err(kafkaJars(t.Context(), true)), "mvn could not fetch", "asked")
	text, _ := os.ReadFile(called)
	must.True(t, strings.Contains(string(text), "dependency:copy-dependencies"), "asked, mvn was called with %q", text)
}

// tcpProxy forwards connections to a target, and can simulate faults of the network.
type tcpProxy struct {
	listener net.Listener
	target   string

	working sync.WaitGroup
	mu      sync.Mutex
	fault   netFault
	changed chan struct{} // closed when fault changes
	conns   map[net.Conn]bool
}

// netFault describes the faults of a tcpProxy. The zero value means no fault.
type netFault struct {
	delay  time.Duration // delay of every piece of data, in both directions
	refuse bool          // all current and new connections are closed
	hole   bool          // no data passes, and connections stay open
	deaf   bool          // requests pass, responses do not
	tear   bool          // connections are closed in the middle of a response
}

func startProxy(t *testing.T, listener net.Listener, target string) *tcpProxy {
	p := &tcpProxy{listener: listener, target: target, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	p.working.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // the proxy was closed
			}
			p.working.Go(func() { p.pass(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.set(netFault{refuse: true})
		p.working.Wait()
	})
	return p
}

func (p *tcpProxy) set(f netFault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
	if f.refuse {
		for c := range p.conns {
			c.Close()
		}
	}
}

func (p *tcpProxy) now() (netFault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}

// pass forwards one connection until the client or the target ends it.
func (p *tcpProxy) pass(client net.Conn) {
	defer client.Close()
	server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	refused := p.fault.refuse
	if !refused {
		p.conns[client], p.conns[server] = true, true
	}
	p.mu.Unlock()
	if refused {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(server, client, false) })
	both.Go(func() { p.copy(client, server, true) })
	both.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

// copy forwards data as the current fault allows. At the end it closes both connections.
func (p *tcpProxy) copy(to, from net.Conn, answers bool) {
	defer to.Close()
	defer from.Close()
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		f, changed := p.now()
		for f.hole || f.deaf && answers {
			<-changed
			f, changed = p.now()
		}
		time.Sleep(f.delay)
		torn := f.tear && answers
		if torn {
			n /= 2
		}
		if _, err := to.Write(piece[:n]); err != nil || torn {
			return
		}
	}
}

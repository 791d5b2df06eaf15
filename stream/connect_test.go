package stream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"blankout/internal/must"
	"blankout/internal/streamtest"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
)

// certificate returns a certificate of 127.0.0.1 signed by a new authority. It writes the authority's certificate and a
// client certificate to files.
func certificate(t *testing.T) (server tls.Certificate, authorities *x509.CertPool, dir string) {
	t.Helper()
	dir = t.TempDir()
	a := streamtest.NewAuthority(t)
	client, key := a.Sign(t, "client")
	for name, text := range map[string][]byte{"ca.pem": a.PEM, "client.pem": client, "client.key": key} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	authorities = x509.NewCertPool()
	authorities.AppendCertsFromPEM(a.PEM)
	return a.Pair(t, "server"), authorities, dir
}

func TestSecurity(t *testing.T) {
	server, authorities, dir := certificate(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	must.Do(t, os.WriteFile(file("password"), []byte("secret\n"), 0o600))
	t.Setenv("TEST_PASSWORD", "secret")
	t.Setenv("WRONG_PASSWORD", "guess")
	t.Setenv("ODD_PASSWORD", "p,=\u00e4 \u2168\u00df")
	plaintext := startCluster(t, 1, 1)
	users := []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("PLAIN", "ann", "secret"),
		kfake.Superuser("SCRAM-SHA-256", "ann", "secret"), kfake.Superuser("SCRAM-SHA-512", "ann", "secret"),
		kfake.Superuser("SCRAM-SHA-256", "a=n,n", "p,=\u00e4 \u2168\u00df")}
	guarded := startCluster(t, 1, 1, users...)
	encrypted := startCluster(t, 1, 1, append(users, kfake.TLS(&tls.Config{
		Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities}))...)
	encryption := TLSConfig{Enabled: true, CAFile: file("ca.pem"), CertFile: file("client.pem"), KeyFile: file("client.key")}

	// kfake closes the connection for a wrong password. Another test checks the error message of a real broker.
	tests := []struct {
		name    string
		broker  *Embedded
		tls     TLSConfig
		sasl    SASLConfig
		err     string
		retried bool // retried until RequestTimeout, because a broker might be starting
	}{
		{"plain", guarded, TLSConfig{}, SASLConfig{Mechanism: "PLAIN", Username: "ann", PasswordEnv: "TEST_PASSWORD"}, "", false},
		{"scram 256", guarded, TLSConfig{}, SASLConfig{Mechanism: "SCRAM-SHA-256", Username: "ann", PasswordEnv: "TEST_PASSWORD"}, "", false},
		{"scram with any letters", guarded, TLSConfig{}, SASLConfig{Mechanism: "SCRAM-SHA-256", Username: "a=n,n", PasswordEnv: "ODD_PASSWORD"}, "", false},
		{"scram 512 from a file", guarded, TLSConfig{}, SASLConfig{Mechanism: "SCRAM-SHA-512", Username: "ann", PasswordFile: file("password")}, "", false},
		{"tls and scram", encrypted, encryption, SASLConfig{Mechanism: "SCRAM-SHA-512", Username: "ann", PasswordEnv: "TEST_PASSWORD"}, "", false},
		{"tls and plain", encrypted, encryption, SASLConfig{Mechanism: "PLAIN", Username: "ann", PasswordEnv: "TEST_PASSWORD"}, "", false},
		{"wrong password", guarded, TLSConfig{}, SASLConfig{Mechanism: "PLAIN", Username: "ann", PasswordEnv: "WRONG_PASSWORD"}, "and the user and password", true},
		{"wrong scram password", guarded, TLSConfig{}, SASLConfig{Mechanism: "SCRAM-SHA-256", Username: "ann", PasswordEnv: "WRONG_PASSWORD"}, "and the user and password", true},
		{"unknown authority", encrypted, TLSConfig{Enabled: true}, SASLConfig{}, "set tls.ca_file", false},
		{"no client certificate", encrypted, TLSConfig{Enabled: true, CAFile: file("ca.pem")}, SASLConfig{}, "certificate required", false},
		{"no tls where it is wanted", encrypted, TLSConfig{}, SASLConfig{}, "check whether the port needs TLS", true},
		{"tls where there is none", plaintext, encryption, SASLConfig{}, "", true},
		{"no password", guarded, TLSConfig{}, SASLConfig{Mechanism: "PLAIN", Username: "ann", PasswordEnv: "NO_SUCH_VARIABLE"}, "set the environment variable NO_SUCH_VARIABLE", false},
		{"no such mechanism", guarded, TLSConfig{}, SASLConfig{Mechanism: "GSSAPI", Username: "ann"}, `mechanism "GSSAPI"`, false},
		{"no such file", encrypted, TLSConfig{Enabled: true, CAFile: file("none.pem")}, SASLConfig{}, "ca_file", false},
		{"no certificate in the file", encrypted, TLSConfig{Enabled: true, CAFile: file("password")}, SASLConfig{}, "no PEM certificate", false},
		{"files without enabled", encrypted, TLSConfig{CAFile: file("ca.pem")}, SASLConfig{}, "enabled is false", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.retried {
				t.Parallel() // these cases only wait
			}
			edit := func(c *ConnectConfig) {
				c.TLS, c.SASL = test.tls, test.sasl
				if test.retried {
					c.RequestTimeout = 200 * time.Millisecond
				}
			}
			c, err := tryConsume(t, test.broker, "t", nil, func(c *ConsumerConfig) { edit(&c.ConnectConfig) })
			if test.name == "tls where there is none" {
				must.True(t, err != nil, "no error")
				return
			}
			if test.err != "" {
				must.ErrorContains(t, err, test.err)
				return
			}
			must.Do(t, err)
			defer c.Close()
			before := len(c.all())
			produce(t, test.broker, "t", func(c *ProducerConfig) { edit(&c.ConnectConfig) }, numbered(3)...)
			c, err = tryConsume(t, test.broker, "t", nil, func(c *ConsumerConfig) { edit(&c.ConnectConfig) })
			must.Do(t, err)
			defer c.Close()
			must.Equal(t, len(c.all()), before+3, "records after", before)
		})
	}
}

// TestExplain checks that hints about addresses and TLS are only for first connections, and that the name of kafka-go's
// method is removed.
func TestExplain(t *testing.T) {
	for hint, cause := range map[string]error{"no program listens": syscall.ECONNREFUSED, "needs TLS or SASL": io.EOF} {
		err := fmt.Errorf("kafka.(*Client).Metadata: %w", cause)
		must.ErrorContains(t, explain(err, true), cause.Error()+": ")
		must.ErrorContains(t, explain(err, true), hint)
		must.Equal(t, explain(err, false).Error(), cause.Error())
	}
}

// TestStartWait checks that brokers get longer to start than a request takes, but no request is cut short by that.
func TestStartWait(t *testing.T) {
	for request, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 500 * time.Millisecond, 2 * time.Second: 10 * time.Second, 3 * time.Second: 10 * time.Second, 10 * time.Second: 10 * time.Second, time.Minute: time.Minute,
	} {
		c := ConnectConfig{RequestTimeout: request}
		must.Equal(t, c.startWait(), want, "requests of", request)
	}
}

// TestStopIsNotLogged checks that a call that ends because the program stops is not logged as a failure, and that a
// failing call is logged.
func TestStopIsNotLogged(t *testing.T) {
	var log bytes.Buffer
	k := &cluster{log: slog.New(slog.NewTextHandler(&log, nil)), transport: &kafka.Transport{}}
	k.client = &kafka.Client{Addr: kafka.TCP("127.0.0.1:1"), Transport: k.transport}
	ctx, cancel := context.WithCancel(t.Context())
	err := k.retry(ctx, "asking", func() error {
		cancel()
		return ctx.Err()
	})
	must.True(t, errors.Is(err, context.Canceled) && log.Len() == 0, "%v; logged: %s", err, &log)
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	tries := 0
	err = k.retry(ctx, "asking", func() error {
		if tries++; tries == 2 {
			return nil
		}
		return kafka.LeaderNotAvailable
	})
	must.True(t, err == nil && tries == 2 && strings.Count(log.String(), "level=WARN msg=asking attempt=1") == 1, "%v after %d tries; logged: %s", err, tries, &log)
}

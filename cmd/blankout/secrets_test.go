package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"blankout/internal/must"
)

// output is a buffer to which a concurrently running program writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// TestSecretsAreNeverShown runs commands with right and with wrong passwords and tokens. The secrets must appear
// nowhere. The test searches logs, errors, pages, responses and files.
func TestSecretsAreNeverShown(t *testing.T) {
	const password, wrong, token, guess = "pa55-Kafka-right", "pa55-Kafka-wrong", "t0ken-http-right", "t0ken-http-guess"
	broker, err := kfake.NewCluster(kfake.Ports(0), kfake.SeedTopics(1, "events", "requests", "predictions", "snapshots", "wire"),
		kfake.EnableSASL(), kfake.Superuser("PLAIN", "alice", password))
	must.Do(t, err)
	defer broker.Close()
	dir := t.TempDir()
	t.Chdir(dir)
	secrets := t.TempDir() // directory of the files that may contain secrets
	tokenFile := filepath.Join(secrets, "token")
	config := `
[kafka]
brokers = ["` + broker.ListenAddrs()[0] + `"]
request_timeout = "1s"
[kafka.sasl]
mechanism = "PLAIN"
username = "alice"
[http]
address = "127.0.0.1:0"
token_file = "` + filepath.ToSlash(tokenFile) + `"
[snapshot]
topic = "snapshots"
file = "snapshot.blankout"
[predict]
topic = "requests"
output = "predictions"
token_file = "` + filepath.ToSlash(tokenFile) + `"
`
	events := strings.Repeat(`{"label":"yes","x":1}`+"\n"+`{"label":"no","x":-1}`+"\n{\n", 50)
	for name, text := range map[string]string{"blankout.toml": config, "events.jsonl": events, tokenFile: token + "\n"} {
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	var told output
	tell := func(ctx context.Context, want int, args ...string) {
		t.Helper()
		before := len(told.String())
		code := execute(ctx, args, strings.NewReader(""), &told, &told)
		must.True(t, code == want, "blankout %s: exit code %d, want %d\n%s", strings.Join(args, " "), code, want, told.String()[before:])
	}
	ctx := t.Context()
	t.Setenv("BLANKOUT_KAFKA_PASSWORD", wrong)
	var refused sync.WaitGroup // both wait for the broker
	for _, args := range [][]string{{"run"}, {"produce", "-d", "events.jsonl"}} {
		refused.Go(func() { tell(ctx, 1, append(args, "-f", "blankout.toml", "--set", "kafka.request_timeout=100ms")...) })
	}
	refused.Wait()
	t.Setenv("BLANKOUT_KAFKA_PASSWORD", password)
	tell(ctx, 0, "produce", "-f", "blankout.toml", "-d", "events.jsonl")
	tell(ctx, 0, "produce", "-f", "blankout.toml", "-d", "events.jsonl", "--topic", "requests")
	tell(ctx, 0, "config", "show", "-f", "blankout.toml")
	tell(ctx, 2, "run", "-f", "blankout.toml", "--set", "kafka.sasl.password="+wrong)
	// A secret in a setting that does not allow secrets must not appear either.
	for _, wrong := range []string{
		"predict.model=http://me:" + token + "@127.0.0.1:1", "predict.model=http://me:" + token + "%@127.0.0.1:1", "predict.model=ftp://" + token + "@127.0.0.1:1",
		"kafka.brokers=alice:" + password + "@127.0.0.1:9092",
	} {
		tell(ctx, 2, "config", "show", "-f", "blankout.toml", "--set", wrong)
		tell(ctx, 2, "config", "check", "-f", "blankout.toml", "--set", wrong)
	}
	for i, line := range []string{"password = " + password, `password = "` + password, "password_file = " + password, "password = '" + password + "'"} {
		name := fmt.Sprintf("wrong%d.toml", i)
		must.Do(t, os.WriteFile(filepath.Join(secrets, name), []byte("[kafka.sasl]\n"+line+"\n"), 0o600))
		tell(ctx, 2, "config", "show", "-f", filepath.Join(secrets, name))
	}
	tell(ctx, 2, "run", "-f", "blankout.toml", "--predict-only", "--set", "predict.model=http://me:"+token+"@127.0.0.1:1")
	// A secret in the query of an address must not appear either, although libraries write such addresses in their
	// errors.
	query := "?token=" + token
	tell(ctx, 1, "inspect", "http://127.0.0.1:1/"+query)
	tell(ctx, 1, "predict", "-m", "http://127.0.0.1:1/"+query, "-d", "events.jsonl")
	tell(ctx, 2, "train", "-d", "kafka://me:"+token+"@127.0.0.1:1/events"+query, "-m", "no.model")
	brief, cancel := context.WithTimeout(ctx, 700*time.Millisecond)
	defer cancel()
	tell(brief, 0, "run", "--predict-only", "--set", "http.address=127.0.0.1:0", "--set", "predict.model=http://127.0.0.1:1/"+query)
	brief, cancel = context.WithTimeout(ctx, 700*time.Millisecond)
	defer cancel()
	must.Do(t, os.WriteFile("wire.svm", []byte("\x00\x00\x00\x00\x01\x02\n"), 0o600))
	tell(ctx, 0, "produce", "-f", "blankout.toml", "-d", "wire.svm", "--topic", "wire")
	tell(brief, 0, "run", "-f", "blankout.toml", "--set", "kafka.topics=wire", "--set", "record.format=avro", "--set", "registry.url=http://127.0.0.1:1/"+query, "--set", "http.address=", "--set", "checkpoint.directory=other", "--set", "snapshot.topic=", "--set", "snapshot.file=")
	tell(ctx, 0, "run", "-f", "blankout.toml", "--until-end", "--json")

	// Run a service and send it every kind of request.
	service, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	before := len(told.String())
	go func() {
		defer close(done)
		execute(service, []string{"run", "-f", "blankout.toml"}, strings.NewReader(""), &told, &told)
	}()
	serving := regexp.MustCompile(`"url":"(http://[^"]+)"`)
	var url string
	for range 500 {
		if m := serving.FindStringSubmatch(told.String()[before:]); m != nil {
			url = m[1]
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	var served bytes.Buffer
	for _, bearer := range []string{guess, token} {
		for _, path := range []string{"/", "/metrics", "/readyz", "/v1/model", "/v1/model/offsets", "/v1/reports", "/v1/nowhere", "/v1/predict"} {
			request := must.Get(http.NewRequest("GET", url+path, nil))(t)
			request.Header.Set("Authorization", "Bearer "+bearer)
			response := must.Get(http.DefaultClient.Do(request))(t)
			open := path == "/readyz"
			must.True(t, bearer != guess || open || response.StatusCode == 401, "%s: %d", path, response.StatusCode)
			response.Header.Write(&served)
			_, err = io.Copy(&served, response.Body)
			must.Do(t, errors.Join(err, response.Body.Close()))
		}
	}
	http.DefaultClient.CloseIdleConnections()
	// Run a follower of the service with the right token, and then with a wrong one.
	tell(ctx, 0, "run", "-f", "blankout.toml", "--predict-only", "--set", "predict.model="+url, "--set", "predict.group=other", "--until-end", "--set", "http.address=")
	stop()
	<-done

	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, secret := range []string{password, wrong, token, guess} {
			must.True(t, !bytes.Contains(data, []byte(secret)), "%s holds %q", path, secret)
		}
		return err
	})
	must.Require(t, err == nil, "%v", err)
	for _, secret := range []string{password, wrong, token, guess} {
		must.True(t, !strings.Contains(told.String(), secret), "%q was told:\n%s", secret, told.String())
		must.True(t, !bytes.Contains(served.Bytes(), []byte(secret)), "%q was served", secret)
	}
	must.True(t, strings.Contains(told.String(), "SASL") && served.Len() >= 10_000, "this tests nothing: %d bytes served\n%s", served.Len(), told.String())
}

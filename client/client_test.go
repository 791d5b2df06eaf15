package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"blankout/app/served"
	"blankout/app/served/kafka"
	"blankout/app/served/s3"
	"blankout/client"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/internal/s3test"
	"blankout/stream"
)

const models = "../tests/testdata/format1/"

var events = []string{`{"word":"fine","x":1,"y":-2.5}`, `{"word":"grim","x":0.25,"other":"new"}`, `{"word":["fine","grim"],"x":null}`, `{}`, `{"stranger":1}`}

// TestPredictionsEqualTheProgram checks that the library and the program return equal predictions, explanations and
// JSON.
func TestPredictionsEqualTheProgram(t *testing.T) {
	for _, name := range []string{"checkpoint", "snapshot", "linear", "kernel"} {
		path := models + name + ".blankout"
		m := must.Get(client.Open(t.Context(), path, client.Options{}))(t)
		inner := must.Get(served.Open(t.Context(), path, served.Options{}))(t)
		must.True(t, !m.Regression() && strings.Join(m.Classes(), " ") == "bad good" && m.Version() == inner.Version && m.Events() == inner.Events && m.Published().Equal(inner.At),
			"%s: %v %v %d %d %v", name, m.Regression(), m.Classes(), m.Version(), m.Events(), m.Published())
		explain := must.Either(name == "kernel", 0, 3)
		for _, e := range events {
			got := must.Get(m.Predict([]byte(e), explain))(t)
			want := must.Get(inner.Predict([]byte(e), explain))(t)
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(want)
			must.True(t, bytes.Equal(a, b) && got.OnlyUnseen == want.OnlyUnseen, "%s: %s:\n got  %s\n want %s", name, e, a, b)
		}
	}
}

func TestErrors(t *testing.T) {
	m := must.Get(client.Open(t.Context(), models+"linear.blankout", client.Options{MissingPolicy: "none"}))(t)
	var refused *client.RefusedError
	_, err := m.Predict([]byte(`{"x":`), 0)
	must.True(t, errors.As(err, &refused) && refused.Reason == "syntax" && refused.Detail != "", "a record cut short: %v", err)
	must.ErrorContains(t, must.Err(client.Open(t.Context(), models+"linear.blankout", client.Options{MissingPolicy: "guess"})), `"guess": want one of`, "a policy that does not exist")
	must.ErrorContains(t, must.Err(client.Open(t.Context(), "kafka://127.0.0.1:1/", client.Options{})), "kafka://HOST:PORT/TOPIC", "a topic without a name")
	must.ErrorContains(t, must.Err(client.Open(t.Context(), "s3://", client.Options{})), "s3://", "an object without a name")
	must.Fails(t, must.Err(client.Decode([]byte("no model"))), "no model: no error")
}

// TestOutsideProgram checks that a program outside the module builds with the library by a replace directive, and
// predicts.
func TestOutsideProgram(t *testing.T) {
	root := must.Get(filepath.Abs(".."))(t)
	dir := t.TempDir()
	main := must.Get(os.ReadFile("testdata/outside/main.go"))(t)
	sums := must.Get(os.ReadFile("../go.sum"))(t)
	for name, text := range map[string]string{
		"main.go": string(main), "go.sum": string(sums),
		"go.mod": "module example.org/outside\n\ngo 1.26\n\nrequire blankout v0.0.0\n\nreplace blankout => " + root + "\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	build := exec.Command("go", "build", "-mod=mod", "-o", "outside", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off")
	if longtest.Race {
		build.Env = append(build.Env, "CGO_ENABLED=0") // so that the packages are in the build cache
	}
	out, err := build.CombinedOutput()
	must.Require(t, err == nil, "%v\n%s", err, out)
	model := must.Get(filepath.Abs(models + "checkpoint.blankout"))(t)
	out, err = exec.Command(filepath.Join(dir, "outside"), model).CombinedOutput()
	must.True(t, err == nil && bytes.Contains(out, []byte(`"class":"good"`)) && bytes.Contains(out, []byte(`"explanation":[{"feature":`)), "%v\n%s", err, out)
}

// A learner publishes its models to a topic, and your program reads the newest model.
func ExampleOpen_kafka() {
	cluster, err := kfake.NewCluster(kfake.Ports(0)) // takes the role of your brokers
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	brokers := stream.DefaultConnectConfig()
	brokers.Brokers = cluster.ListenAddrs()
	ctx := context.Background()
	p, err := kafka.NewPublisher(ctx, kafka.PublisherConfig{ConnectConfig: brokers, Topic: "models", Create: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	if err := p.Publish(ctx, opinion(7)); err != nil {
		fmt.Println(err)
		return
	}

	// Your own program contains the code from here on.
	m, err := client.Open(ctx, "kafka://"+strings.Join(brokers.Brokers, ",")+"/models", client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("version", m.Version())
	// Output: version 7
}

// A learner publishes its models to an object in a store, and your program reads the newest model.
func ExampleOpen_s3() {
	store := s3test.Start() // takes the role of your store
	defer store.Close()
	os.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
	os.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
	ctx := context.Background()
	p, err := s3.NewPublisher(ctx, s3.Config{Endpoint: event.Address(store.URL), Region: s3test.Region}, "s3://models/fraud.blankout")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Publish(ctx, opinion(7)); err != nil {
		fmt.Println(err)
		return
	}

	// Your own program contains the code from here on.
	m, err := client.Open(ctx, "s3://models/fraud.blankout", client.Options{S3: client.S3{Endpoint: store.URL, Region: s3test.Region}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("version", m.Version())
	// Output: version 7
}

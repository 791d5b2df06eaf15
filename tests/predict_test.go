package tests

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"blankout/internal/must"
	"blankout/serve/predict"
	"blankout/stream"
)

// TestPredictionsSurviveKills kills a program at random times while it scores a topic. In the end every event must have
// its prediction, and every invalid event its error.
func TestPredictionsSurviveKills(t *testing.T) {
	t.Parallel()
	program := buildProgram(t)
	broker := crashBroker(t, "short", "three")
	l := newLearner(t, program, broker.Brokers()[0], "short")
	l.finish(t) // learns the model
	l.flags = []string{"--predict-only", "--set=kafka.create_topics=true", "--set=predict.topic=three", "--set=predict.output=predictions",
		"--set=predict.model=" + l.checkpoints()}
	began := time.Now()
	r := rand.New(rand.NewPCG(uint64(began.UnixNano()), 0))
	kills := max(4, crashKills(t)/8)
	for range kills { // these programs wait for more records at the end of the topic
		delay := time.Duration(r.Float64() * float64(400*time.Millisecond))
		err := l.live(t, delay, (*os.Process).Kill)
		exit := (*exec.ExitError)(nil)
		must.Require(t, errors.As(err, &exit) && exit.ExitCode() == -1, "%v\n%s", err, l.log())
	}
	l.flags = append(l.flags, "--until-end")
	l.finish(t)
	config := stream.DefaultConsumerConfig()
	config.Brokers, config.Topics, config.UntilEnd = broker.Brokers(), []string{"predictions"}, true
	reader := must.Get(stream.NewReader(t.Context(), config, nil))(t)
	defer reader.Close()
	type place struct {
		partition int32
		offset    int64
	}
	times := map[place]int{}
	refused, total := map[place]bool{}, 0
	for {
		b, err := reader.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		must.Do(t, err)
		for _, record := range b.Records {
			var p predict.Output
			must.Do(t, json.Unmarshal(record.Value, &p), record.Value)
			at := place{p.Partition, p.Offset}
			times[at]++
			total++
			if p.Error != "" {
				refused[at] = true
			}
		}
	}
	want := crashTopics["three"].records
	must.True(t, len(times) == want && len(refused) == (want+crashRefused-6)/crashRefused, "%d of %d events predicted, %d refused", len(times), want, len(refused))
	t.Logf("%d kills: %d predictions of %d events, in %v", kills, total, want, time.Since(began).Round(time.Millisecond))
}

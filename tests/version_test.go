package tests

import (
	"encoding/json"
	"net/http"
	"regexp"
	"testing"
	"time"

	"blankout/internal/must"
)

// TestVersionsNeverGoBack kills a learner, which then continues from an older state. The version of the published model
// must never decrease.
func TestVersionsNeverGoBack(t *testing.T) {
	t.Parallel()
	broker := crashBroker(t, "one")
	l := newLearner(t, buildProgram(t), broker.Brokers()[0], "one")
	l.env = []string{"BLANKOUT_HTTP_ADDRESS=127.0.0.1:0", "BLANKOUT_HTTP_PUBLISH_INTERVAL=1ms", "BLANKOUT_CHECKPOINT_EVENTS=0", "BLANKOUT_CHECKPOINT_INTERVAL=1h"}
	l.flags = nil
	defer http.DefaultClient.CloseIdleConnections()
	serving := regexp.MustCompile(`"url":"(http://[^"]+)"`)
	version, seen, back := uint64(0), 0, false
	var events uint64
	for life := range 4 {
		command := l.start(t)
		deadline := time.Now().Add(30 * time.Second)
		for asked := 0; asked < 20 && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			urls := serving.FindAllStringSubmatch(l.log(), -1)
			if len(urls) <= life {
				continue
			}
			response, err := http.Get(urls[life][1] + "/v1/model/offsets")
			if err != nil {
				continue
			}
			var now struct{ Version, Events uint64 }
			err = json.NewDecoder(response.Body).Decode(&now)
			response.Body.Close()
			if err != nil || now.Events == 0 {
				continue
			}
			asked++
			must.True(t, now.Version >= version && (now.Version != version || now.Events == events), "life %d: version %d of %d events after version %d of %d", life, now.Version, now.Events, version, events)
			if now.Version > version {
				seen++
			}
			back = back || now.Events < events
			version, events = now.Version, now.Events
		}
		must.Do(t, command.Process.Kill())
		command.Wait()
	}
	must.True(t, seen >= 4 && back, "%d versions seen, events went back: %v; this tests nothing", seen, back)
}

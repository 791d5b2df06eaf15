package serve_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/online"
	"blankout/serve"
)

func TestLearners(t *testing.T) {
	var lines bytes.Buffer
	for i := range 24_345 {
		label := []string{"no", "yes"}[i/2%2]
		fmt.Fprintf(&lines, `{"label":%q,"ts":%d,"word":"%s","x":%d}`+"\n", label, time.Now().UnixMilli(), label, i%7)
	}
	r, s := runnerOf(t, online.DefaultConfig(), lines.Bytes())
	answers(t, http.StatusNotFound, "[[challenger]]", "GET", start(t, serve.DefaultConfig(), s)+"/v1/learners", "")
	slow := online.DefaultConfig()
	slow.LearningRate = 1e-4
	other := must.Get(online.New(slow, r.Schema))(t)
	r.Challengers = &run.Challengers{All: []*run.Challenger{
		{Learner: r.Learner, Standing: run.Standing{Name: run.Champion, Promote: "manual", Window: 10_000}},
		{Learner: other, Standing: run.Standing{Name: "slow", Promote: run.PromoteAuto, Window: 10_000}},
	}}
	s.Model, s.Learner, s.Promote = latest(r.Published, written()), newest(r.Published, written()), r.Promote
	gate := &gated{Source: r.Source, at: 6000, wait: make(chan bool), reached: make(chan bool)}
	r.Source = gate
	var saved atomic.Int32
	r.Save = func(blocks iter.Seq[event.Block]) (string, int64, error) {
		for range blocks {
		}
		saved.Add(1)
		return "checkpoint", 1, nil
	}
	r.Config.SaveEvents, r.Config.SaveInterval, r.Config.PublishEvents = 0, 0, 1
	c := serve.DefaultConfig()
	url := start(t, c, s)
	answers(t, http.StatusServiceUnavailable, "", "GET", url+"/v1/model?name=slow", "", "Accept", "application/json")
	ended := make(chan error, 1)
	go func() { ended <- r.Run(t.Context()) }()
	<-gate.reached
	for _, x := range []struct {
		body string
		want int
		text string
	}{
		{`{"name":"fast"}`, http.StatusNotFound, `no learner \"fast\": want one of [\"learner\" \"slow\"]`},
		{`{}`, http.StatusBadRequest, "NAME"},
		{`{`, http.StatusBadRequest, "NAME"},
		{`{"name":"slow"}`, http.StatusOK, `{"leader":"slow"}`},
	} {
		answers(t, x.want, x.text, "POST", url+"/v1/promote", x.body)
	}
	must.True(t, saved.Load() != 0, "no checkpoint has the promotion when it is answered")
	close(gate.wait)
	must.Do(t, <-ended)
	answers(t, http.StatusConflict, "", "POST", url+"/v1/promote", `{"name":"learner"}`)
	var list struct{ Learners []serve.LearnerReport }
	body := decoded(t, &list, "GET", url+"/v1/learners", "")
	if l := list.Learners; len(l) != 2 || l[0].Name != "learner" || l[0].Leader || !l[1].Leader || l[1].Promote != "auto" || l[1].Compared != nil ||
		l[0].Events != 24_345 || l[0].Compared == nil || l[0].Compared.From < 6000 || l[0].Compared.From > 20_000 || l[0].Compared.Difference == nil || !(*l[0].Compared.Difference < 0) {
		t.Errorf("%s", body)
	}
	for name, want := range map[string]string{"": "slow", "slow": "slow", "learner": "learner"} {
		query := must.Either(name != "", "?name="+name, "")
		var place struct {
			Learner string
			Events  int
		}
		body := decoded(t, &place, "GET", url+"/v1/model/offsets"+query, "")
		must.True(t, place.Learner == want && place.Events == 24_345, "%q: %s", name, body)
		status, file, header := call(t, "GET", url+"/v1/model"+query, "")
		m, err := served.Decode([]byte(file))
		must.True(t, status == 200 && err == nil && m.Learner == want, "%q: %d, %v", name, status, err)
		answers(t, http.StatusNotModified, "", "GET", url+"/v1/model"+query, "", "If-None-Match", header.Get("ETag"))
		status, _, _ = call(t, "GET", url+"/v1/model?name=learner", "", "If-None-Match", header.Get("ETag"))
		must.True(t, (status == http.StatusNotModified) == (want == "learner"), "the tag of %q is that of learner: %d", name, status)
		_, body, _ = call(t, "POST", url+"/v1/predict"+query, `{"word":"yes","x":3}`)
		must.True(t, strings.Contains(body, `"learner":"`+want+`"`), "%q: %s", name, body)
		answers(t, 200, "", "GET", url+"/v1/model/largest"+query, "")
	}
	for _, path := range []string{"/v1/model?name=x", "/v1/model/offsets?name=x", "/v1/model/largest?name=x"} {
		answers(t, http.StatusNotFound, `no learner \"x\"`, "GET", url+path, "")
	}
	answers(t, http.StatusNotFound, "", "POST", url+"/v1/predict?name=x", `{"x":3}`)
	_, metrics, _ := call(t, "GET", url+"/metrics", "")
	must.Contains(t, metrics, `blankout_challenger_leader{learner="slow"} 1`, `blankout_challenger_leader{learner="learner"} 0`,
		`blankout_challenger_difference{learner="learner",span="total"} -`, `blankout_challenger_difference_standard_error{learner="learner",span="total"} `)
	must.True(t, !strings.Contains(metrics, `blankout_challenger_difference{learner="slow"`), "the leader is compared with itself")
	b := browse(t)
	b.eachLook(t, url, "document.querySelectorAll('#learners-table tr').length === 3", func(t *testing.T, l look) {
		b.shows(t, map[string]any{
			"document.querySelector('#learners').hidden":                                                    false,
			"document.querySelectorAll('#learners-table tr')[2].firstElementChild.textContent":              "slow (leader)",
			"document.querySelectorAll('#learners-table tr')[1].children[1].textContent":                    "24,345",
			"/^-.+ ± .+$/.test(document.querySelectorAll('#learners-table tr')[1].children[4].textContent)": true,
			"document.querySelectorAll('#learners-table tr')[2].children[4].textContent":                    "–",
			"[...document.querySelectorAll('#learners-table button')].map(e => e.textContent).join()":       "Promote",
			"document.documentElement.scrollWidth <= innerWidth":                                            true,
		})
		b.picture(t, "learners-"+l.name)
	})
}

// gated is a Source that waits at a given offset.
type gated struct {
	event.Source
	at            int64
	reached, wait chan bool
	passed        bool
}

func (g *gated) Next(ctx context.Context, b *event.Batch) error {
	if b.Next >= g.at && !g.passed { // a Batch that was learned is read again
		g.passed = true
		close(g.reached)
		select {
		case <-g.wait:
		case <-ctx.Done():
		}
	}
	return g.Source.Next(ctx, b)
}

package main

// The command top shows a running learner in a terminal.

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"blankout"
	"blankout/internal/secret"
	"blankout/serve"
)

func (p *program) top() *cobra.Command {
	var once, asJSON bool
	var tokenFile string
	c := &cobra.Command{
		Use:   "top [URL]",
		Short: "Show a running learner in the terminal, every second",
		Long: `top shows the essentials of the learner at URL (if none is given, at the address in the
variable BLANKOUT_HTTP_ADDRESS, else at 127.0.0.1:8642), anew every second until it is interrupted. A server that wants a token gets that of the
file --token-file, else of the variable BLANKOUT_HTTP_TOKEN.`,
		Example: "  blankout top\n  blankout top --once",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{errors.New("top wants one URL, of a learner")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			url := "http://" + cmp.Or(os.Getenv("BLANKOUT_HTTP_ADDRESS"), serve.DefaultConfig().Address)
			if len(args) == 1 {
				url = strings.TrimSuffix(args[0], "/")
			}
			token := os.Getenv("BLANKOUT_HTTP_TOKEN")
			if tokenFile != "" {
				data, err := os.ReadFile(tokenFile)
				if err != nil {
					return usageError{fmt.Errorf("top: %w", err)}
				}
				token = strings.TrimRight(string(data), "\r\n")
			}
			if err := p.watch(c.Context(), url, token, once || asJSON, asJSON); err != nil && c.Context().Err() == nil {
				return fmt.Errorf("top: %s: %w", url, err)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&once, "once", false, "show it once and end")
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object of what the page shows, and end")
	c.Flags().StringVar(&tokenFile, "token-file", "", "`FILE` that holds the server's token")
	return c
}

// watch follows the events of a server and writes each status, until ctx or the events end.
func (p *program) watch(ctx context.Context, url, token string, once, asJSON bool) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/events", nil)
	if err != nil {
		return usageError{err}
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	asks := secret.Client(nil)
	asks.Timeout = 0 // events come as long as it runs
	answer, err := asks.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return fmt.Errorf("%s: %s", answer.Status, strings.TrimSpace(string(text)))
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 16<<20)
	var screen topScreen
	kind := ""
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			kind = name
			continue
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		switch kind {
		case "history":
			err = json.Unmarshal([]byte(data), &screen.points)
		case "status":
			if asJSON {
				_, err := fmt.Fprintln(p.stdout, data)
				return err
			}
			var now serve.Report
			if err = json.Unmarshal([]byte(data), &now); err == nil {
				text := screen.draw(&now)
				if isTerminal(p.stdout) && !once {
					text = "\x1b[H\x1b[J" + text
				}
				_, err = io.WriteString(p.stdout, text)
			}
		}
		if err != nil || once && kind == "status" {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return errors.New("the server has closed the connection")
}

// topScreen is what top remembers between two looks.
type topScreen struct {
	points []serve.Point
}

// draw words a look at a learner.
func (t *topScreen) draw(r *serve.Report) string {
	t.points = append(t.points, r.Point)
	if len(t.points) > 600 {
		t.points = t.points[len(t.points)-600:]
	}
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", blankout.Printable(name), blankout.Printable(fmt.Sprintf(format, args...)))
	}
	state := r.NotReady
	if state == "" {
		switch { // the page's words
		case r.Ended:
			state = "ended, serving"
		case r.Started == nil:
			state = "predicting"
		case r.Learned+r.Unlabelled+r.Refused == 0:
			state = "waiting for events"
		default:
			state = "learning"
		}
	}
	name := r.Name
	if name == "" {
		name = "blankout"
	}
	line(name, "%s", state)
	if r.Model != nil {
		line("model", "%d.%d, %s events, loss %s, noise %s", r.Model.Version>>32, r.Model.Version&(1<<32-1), humanize.Comma(int64(r.Model.Events)), r.Model.Loss, r.Model.Noise)
	}
	line("events", "%s, %s/s", humanize.Comma(int64(r.Events)), t.rate())
	if r.Lag != nil {
		line("lag", "%s records", humanize.Comma(int64(*r.Lag)))
	}
	worded := func(word func(x float64) string) func(x *float64) string {
		return func(x *float64) string {
			if x == nil {
				return "?"
			}
			return word(*x)
		}
	}
	wrong, loss, wrongName, lossName, forecast := worded(func(x float64) string { return percent(100*x) + " %" }),
		worded(func(x float64) string { return fmt.Sprintf("%.4f", x) }), "error", "log-loss", "forecast"
	if r.Numbers { // in the targets' own unit
		wrong = worded(func(x float64) string { return fmt.Sprintf("%.4g", x) })
		loss, wrongName, lossName, forecast = wrong, "MAE", "RMSE", "RMSE of"
	}
	line(wrongName, "%s lately, %s in all  %s", wrong(r.Error), wrong(r.Total), t.spark())
	line(lossName, "%s lately, %s in all", loss(r.Loss), loss(r.TotalLoss))
	if r.Checkpoint.At != nil {
		line("checkpoint", "%s, %s", r.Checkpoint.Name, humanize.Time(time.UnixMilli(*r.Checkpoint.At)))
	}
	line("drift", "%d alarms", r.Drift.Alarms)
	if r.Refused > 0 {
		line("refused", "%s records", humanize.Comma(int64(r.Refused)))
	}
	if len(r.Served) > 0 {
		var parts []string
		for i, e := range r.Served {
			if i < len(r.Deletions) && i%3 == 0 {
				parts = append(parts, fmt.Sprintf("%.0f %% gone %s", 100*r.Deletions[i], wrong(e)))
			}
		}
		line(forecast, "%s", strings.Join(parts, ", "))
	}
	if r.Health != nil {
		for _, f := range r.Health.Fields {
			for _, a := range f.Alarms {
				line("field", "%s", a.Text)
			}
		}
	}
	for _, w := range r.Warnings {
		line("warning", "%s", w.Text)
	}
	return b.String()
}

// rate is the events of a second over the last five looks.
func (t *topScreen) rate() string {
	last := t.points[len(t.points)-1]
	for i := max(0, len(t.points)-6); i < len(t.points)-1; i++ {
		if p := t.points[i]; p.Records <= last.Records && p.Time < last.Time {
			return humanize.Comma(int64(float64(last.Records-p.Records) / float64(last.Time-p.Time) * 1000))
		}
	}
	return "?"
}

// spark draws the recent error as bars of text, the highest being the largest of them.
func (t *topScreen) spark() string {
	const width = 40
	var values []float64
	for _, p := range t.points[max(0, len(t.points)-width):] {
		if p.Error != nil {
			values = append(values, *p.Error)
		}
	}
	return sparkline(values)
}

package main

// The command sample writes made-up events, for tutorials and tests.

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"blankout/config"
)

// sampleKinds lists what the command sample can write. A generator returns event i, or nil for no event. It may draw
// from r, whose seed differs for each event.
var sampleKinds = []struct {
	name, help string
	event      func(i int, r *rand.Rand) any
}{
	{"payments", "amount, country, device (null in 5 %); predict fraud: yes or no", func(i int, r *rand.Rand) any { return samplePayment(i, r) }},
	{"chargebacks", "the labels of the fraudulent payments, two hours later", sampleChargeback},
	{"sensors", "eight sensors of a pump (null in 3 %); predict state: ok, clogged or worn", sampleSensors},
	{"text", "requests with a text, a date and hours open; predict team", sampleText},
}

// sampleStart is the time of the first event. One event follows each minute.
var sampleStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (p *program) sampleCommand() *cobra.Command {
	var n int
	var seed uint64
	var names []string
	list := ""
	for _, kind := range sampleKinds {
		names = append(names, kind.name)
		list += fmt.Sprintf("\n  %-12s %s", kind.name, kind.help)
	}
	c := &cobra.Command{
		Use:       "sample " + strings.Join(names, "|"),
		Short:     "Write made-up events, for tutorials and tests",
		Long:      "sample writes made-up events to standard output, as lines of JSON:\n" + list + "\n\nThe same seed gives the same events.",
		Example:   "  blankout sample payments > sample.jsonl\n  blankout sample sensors -n 500 --seed 2 > later.jsonl",
		ValidArgs: names,
		Args:      cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) != 1:
				return usageError{fmt.Errorf("name one kind of events: %s", strings.Join(names, ", "))}
			case n < 1:
				return usageError{fmt.Errorf("-n %d: want 1 or more", n)}
			}
			for _, kind := range sampleKinds {
				if kind.name == args[0] {
					return p.writeSample(n, seed, kind.event)
				}
			}
			return usageError{fmt.Errorf("there is no %q%s (want one of %s)", args[0], config.Nearest(args[0], names), strings.Join(names, ", "))}
		},
	}
	c.Flags().IntVarP(&n, "number", "n", 2000, "write `N` events; chargebacks are those of N payments")
	c.Flags().Uint64Var(&seed, "seed", 1, "seed of all random draws")
	return c
}

func (p *program) writeSample(n int, seed uint64, event func(int, *rand.Rand) any) error {
	out := bufio.NewWriter(p.stdout)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	var err error
	for i := 0; i < n && err == nil; i++ {
		if e := event(i, rand.New(rand.NewPCG(seed, uint64(i)))); e != nil {
			err = lines.Encode(e)
		}
	}
	return errors.Join(err, out.Flush())
}

// draw returns one of the choices.
func draw(r *rand.Rand, choices ...string) string { return choices[r.IntN(len(choices))] }

// payment is an event of the sample payments. At is in milliseconds.
type payment struct {
	Payment int     `json:"payment"`
	At      int64   `json:"at"`
	Amount  float64 `json:"amount"`
	Country string  `json:"country"`
	Device  *string `json:"device"`
	Fraud   string  `json:"fraud"`
}

// samplePayment returns a payment. A fifth are fraud: they are larger, and more often from a new device.
func samplePayment(i int, r *rand.Rand) payment {
	e := payment{Payment: i + 1, At: sampleStart.Add(time.Duration(i) * time.Minute).UnixMilli(), Country: draw(r, "NO", "DK", "SE"), Fraud: "no"}
	most, device := 30.0, draw(r, "phone", "laptop", "phone", "laptop", "new")
	if r.Float64() < .2 {
		e.Fraud, most, device = "yes", 90, draw(r, "phone", "laptop", "new", "new")
	}
	e.Amount = round(most*r.Float64(), 2)
	if r.Float64() >= .05 {
		e.Device = &device
	}
	return e
}

func sampleChargeback(i int, r *rand.Rand) any {
	e := samplePayment(i, r)
	if e.Fraud != "yes" {
		return nil
	}
	return struct {
		Payment int    `json:"payment"`
		At      int64  `json:"at"`
		Fraud   string `json:"fraud"`
	}{e.Payment, e.At + 2*time.Hour.Milliseconds(), e.Fraud}
}

// sampleSensors returns the readings of a pump. They depend on its load and its state, so each of them can be estimated
// from the others.
func sampleSensors(i int, r *rand.Rand) any {
	load, clogged, worn, state := .5+.5*r.Float64(), 0., 0., "ok"
	switch x := r.Float64(); {
	case x < .15:
		clogged, state = .3+.7*r.Float64(), "clogged"
	case x < .3:
		worn, state = .3+.7*r.Float64(), "worn"
	}
	reading := func(x, noise float64) *float64 {
		x = round(x+noise*r.NormFloat64(), 2)
		if r.Float64() < .03 {
			return nil
		}
		return &x
	}
	return struct {
		At          time.Time `json:"at"`
		Current     *float64  `json:"current"`
		Flow        *float64  `json:"flow"`
		Pressure    *float64  `json:"pressure"`
		Speed       *float64  `json:"speed"`
		Temperature *float64  `json:"temperature"`
		Bearing     *float64  `json:"bearing"`
		Vibration   *float64  `json:"vibration"`
		Sound       *float64  `json:"sound"`
		State       string    `json:"state"`
	}{
		sampleStart.Add(time.Duration(i) * time.Minute), reading(4+6*load+2*clogged+worn, .3), reading(20*load-6*clogged, .6),
		reading(2+3*load+2*clogged, .2), reading(1000+1900*load-150*worn, 30), reading(40+25*load+5*clogged+4*worn, 1.5),
		reading(38+22*load+14*worn, 1.5), reading(.5+load+2*worn, .2), reading(60+12*load+3*clogged+8*worn, 1.5), state,
	}
}

// sampleText returns a request to one of three teams. One text in twelve has the words of another team.
func sampleText(i int, r *rand.Rand) any {
	teams := []string{"billing", "shipping", "support"}
	team := r.IntN(len(teams))
	topic := team
	if r.Float64() < .08 {
		topic = r.IntN(len(teams))
	}
	subject := draw(r, [][]string{
		{"the invoice", "my refund", "a second charge on my card", "the price"},
		{"the parcel", "my order", "the delivery date", "a damaged box"},
		{"the app", "my password", "an error on the page", "the login"},
	}[topic]...)
	text := draw(r, "Hello, I have a question about %s.", "Please look at %s, I am waiting for an answer.", "There is a problem with %s again!", "Thank you, but %s is still wrong.")
	return struct {
		ID    string    `json:"id"`
		Date  time.Time `json:"date"`
		Text  string    `json:"text"`
		Hours float64   `json:"hours"`
		Team  string    `json:"team"`
	}{fmt.Sprintf("r%d", i+1), sampleStart.Add(time.Duration(i) * time.Minute), fmt.Sprintf(text, subject), round((4+8*float64(team))*r.ExpFloat64(), 1), teams[team]}
}

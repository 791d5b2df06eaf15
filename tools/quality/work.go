package main

// This file measures the cost of an event in processor time. Costs are ratios within one run, so other machines give
// similar values. The ratios are in docs/speed.md, and .ci/run compares new values with them.

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// works are the measured operations. A cost is relative to the time of json.Valid on the same events.
var works = []struct{ name, of string }{
	{"read: checksum, record, fingerprint", "Event/read"},
	{"decode: JSON to columns", "Event/decode"},
	{"learn: score, measures, forecast, update", "Event/learn"},
	{"learn by default", "Event/default"},
	{"`blankout train`, fixed level", "train/fixed"},
	{"`blankout train`, the default", "train/default"},
}

// ways are the ways of reading a topic, with the names that BenchmarkConsume gives them.
var ways = []struct{ name, of string }{
	{"raw fetch path, counting", "raw/fetch"},
	{"`Consumer`, no decoding", "consumer/fetch"},
	{"`Consumer` with JSON", "decode/fetch"},
	{"the whole run loop, fixed level", "learn/fetch"},
	{"the whole run loop, the default", "default/fetch"},
}

// measured has the median of each value over all rounds, by name.
type measured map[string]float64

// costs measures works in several rounds. It returns the processor time of an event in ns. As "NAME/valid" it returns
// the ratio of this time to the time of json.Valid in the same round.
func (c *comparison) costs() (measured, error) {
	if err := c.build(); err != nil {
		return nil, err
	}
	bench := filepath.Join(c.work, "stream.test")
	if _, err := command("go", "test", "-c", "-o", bench, "./stream"); err != nil {
		return nil, err
	}
	const trained = 200_000
	events := filepath.Join(c.work, "events.json")
	if err := writeEvents(events, trained); err != nil {
		return nil, err
	}
	all := map[string][]float64{}
	for range rounds {
		out, err := command(bench, "-test.run", "^$", "-test.bench", "^BenchmarkEvent$", "-test.benchtime", "40x")
		if err != nil {
			return nil, err
		}
		now := metrics(out, "cpu-ns/event")
		for name, options := range map[string][]string{"train/fixed": fixedLevel, "train/default": nil} {
			r, err := timed(append([]string{c.binary, "train", "-d", events, "--label", "_label", "--solver", "online"}, options...))
			if err != nil {
				return nil, err
			}
			now[name] = float64(r.cpu.Nanoseconds()) / trained
		}
		// The measured time of a stage includes the previous stage, so subtract the time of the previous stage.
		now["Event/learn"] -= now["Event/decode"]
		now["Event/default"] -= now["Event/decode"]
		now["Event/decode"] -= now["Event/read"]
		for _, w := range works {
			all[w.of] = append(all[w.of], now[w.of])
			all[w.of+"/valid"] = append(all[w.of+"/valid"], now[w.of]/now["Event/valid"])
		}
	}
	return medians(all), nil
}

// consumed runs BenchmarkConsume. Call costs first, because it compiles the benchmark program.
func (c *comparison) consumed() (measured, error) {
	out, err := command(filepath.Join(c.work, "stream.test"), "-test.run", "^$", "-test.bench", "^BenchmarkConsume$", "-test.benchtime", "5x")
	m := measured{}
	for _, w := range ways {
		for _, v := range metrics(out, w.of) {
			m[w.of] = v
		}
	}
	return m, err
}

// metrics returns the values of a unit by benchmark name, from the output of go test -bench.
func metrics(out []byte, unit string) map[string]float64 {
	m := map[string]float64{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		i := slices.Index(words, unit)
		name, ok := strings.CutPrefix(line, "Benchmark")
		if i < 1 || !ok {
			continue
		}
		name, _, _ = strings.Cut(strings.Fields(name)[0], "-")
		m[name], _ = strconv.ParseFloat(words[i-1], 64)
	}
	return m
}

func medians(all map[string][]float64) measured {
	m := measured{}
	for name, values := range all {
		slices.Sort(values)
		m[name] = values[len(values)/2]
	}
	return m
}

// works measures all values that writeWorks writes.
func (c *comparison) works() (m, rates measured, err error) {
	if m, err = c.costs(); err != nil {
		return nil, nil, err
	}
	rates, err = c.consumed()
	return m, rates, err
}

func writeWorks(w io.Writer, m, rates measured) {
	fmt.Fprint(w, `## What an event costs

The processor time of a JSON event of 11 features, as a multiple of the time of `+"`json.Valid`"+`, is comparable between
machines. The stages run in one goroutine of `+"`go test -run xxx -bench Event ./stream`"+`, and `+"`blankout train`"+` is a whole
process.

| work | ns | / json.Valid |
|---|---|---|
`)
	for _, x := range works {
		fmt.Fprintf(w, "| %s | %.0f | %.3g |\n", x.name, m[x.of], m[x.of+"/valid"])
	}
	fmt.Fprint(w, `
## A topic compared with a consumer that only counts

`+"`go test -run xxx -bench Consume ./stream`"+` reads a topic of such events from a broker in another process. The
reference counts events with kafka-go's `+"`Client.Fetch`"+`. Rates are per second of wall-clock time:

| way | rate / Client.Fetch |
|---|---|
`)
	for _, x := range ways {
		fmt.Fprintf(w, "| %s | %.2f |\n", x.name, rates[x.of])
	}
}

// slower prints the operations whose cost, relative to json.Valid, is over 5 % higher than in docs/speed.md. A higher
// cost is not an error, because processors differ in more than speed.
func (c *comparison) slower() error {
	data, err := os.ReadFile("docs/speed.md")
	if err != nil {
		return err
	}
	now, err := c.costs()
	if err != nil {
		return err
	}
	for _, x := range works {
		_, row, ok := strings.Cut(string(data), "\n| "+x.name+" | ")
		row, _, _ = strings.Cut(row, " |\n")
		_, ratio, _ := strings.Cut(row, " | ")
		was, err := strconv.ParseFloat(ratio, 64)
		if !ok || err != nil {
			return fmt.Errorf("docs/speed.md has no row %q with a ratio: make speed", x.name)
		}
		is, note := now[x.of+"/valid"], ""
		if is > 1.05*was {
			note = "  SLOWER"
		}
		fmt.Fprintf(c.w, "%-45s %6.3g, in docs/speed.md %6.3g, %+4.0f %%%s\n", x.name, is, was, 100*(is/was-1), note)
	}
	return nil
}

package main

// The command serve shows the web page for stored data.

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/batch"
	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/online"
	"blankout/online/health"
	"blankout/serve"
)

func (p *program) serve() *cobra.Command {
	var address, reports, model string
	c := &cobra.Command{
		Use:   "serve DIR|MODEL|REPORT",
		Short: "Show a checkpoint, model or validation report on the page",
		Long: `serve shows the page of run for files until it is interrupted: the newest checkpoint of a
directory with measures and curves, a model with a form to try events, or a validation
report. It changes no file. Without --address it listens at BLANKOUT_HTTP_ADDRESS, or
on a free port, which it prints.`,
		Example: "  blankout serve checkpoints\n  blankout serve model.blankout --address 127.0.0.1:0",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && model == "" {
				model = args[0]
			} else if len(args) > 0 || model == "" {
				return usageError{errors.New("serve: name one checkpoint directory, model or report")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			on, err := onDisk(model, reports)
			if err != nil {
				return err
			}
			on.OnDisk = true
			config := serve.DefaultConfig()
			config.Address, config.Name = cmp.Or(address, os.Getenv("BLANKOUT_HTTP_ADDRESS"), "127.0.0.1:0"), filepath.Base(model)
			var shown service
			if err := shown.startServer(config, on, p.logger(p.newScreen(0))); err != nil {
				return err
			}
			<-c.Context().Done()
			return shown.Close()
		},
	}
	c.Flags().StringVarP(&model, "model", "m", "", "`PATH` of what is shown, in place of the argument")
	c.Flags().StringVar(&address, "address", "", "`HOST:PORT` to listen on; port 0 takes a free one")
	c.Flags().StringVar(&reports, "reports", "", "directory of validation reports [reports, next to or in DIR]")
	return c
}

// onDisk returns the Service for a path. The argument reports is the directory of validation reports; "" means the
// default directory of run.
func onDisk(path, reports string) (s serve.Service, err error) {
	status := &run.Status{NotReady: "on disk"}
	s.Status = func() *run.Status { return status }
	if filepath.Ext(path) == ".json" {
		data, err := os.ReadFile(path)
		if err != nil {
			return s, err
		}
		v := &batch.Validation{}
		if err := json.Unmarshal(data, v); err != nil || v.ID == "" {
			return s, refusedError{fmt.Errorf("%s: this is not a validation report (%w)", path, errors.Join(err, errors.New("it has no id")))}
		}
		if s.Reports, _, err = serve.OpenReports("", 1); err != nil {
			return s, err
		}
		return s, s.Reports.Add(v)
	}
	if len(served.ShardDirectories(path)) > 0 {
		set, err := openModel(path)
		if err != nil {
			return s, err
		}
		status.Learner.Events, status.Learner.Level = set.Events, set.Noise
		s.Model = func() *served.Model { return set }
		s.Reports, _, err = serve.OpenReports(reports, 1000)
		return s, err
	}
	read, err := readCheckpoint(path)
	if err != nil {
		return s, err
	}
	opened, file, model := read.file, read.path, read.model
	if info, err := os.Stat(file); err == nil && model.At.IsZero() {
		model.At = info.ModTime()
	}
	s.Model = func() *served.Model { return model }
	status.Learner.Events, status.Learner.Level = model.Events, model.Noise
	if _, err := event.FindBlock(opened.Blocks, "learner"); err == nil {
		if status, err = statusOnDisk(opened.Blocks, model.Offsets); err != nil {
			return s, refusedError{fmt.Errorf("%s: %w", file, err)}
		}
		s.History = filepath.Join(filepath.Dir(file), "history.json")
		sample, err := validate.NewReservoir(math.MaxInt32, validate.ReadReservoir(opened.Blocks))
		if err != nil {
			return s, refusedError{fmt.Errorf("%s: %w", file, err)}
		}
		events := sample.Events()
		s.Recent = func() []event.Example { return events }
	}
	if reports == "" {
		for _, dir := range []string{filepath.Join(filepath.Dir(file), "reports"), filepath.Join(filepath.Dir(file), "..", "reports")} {
			if info, err := os.Stat(dir); err == nil && info.IsDir() {
				reports = dir
				break
			}
		}
	}
	if reports != "" {
		s.Reports, _, err = serve.OpenReports(reports, 1000)
	}
	return s, err
}

// statusOnDisk returns the status of the learner in a checkpoint with these offsets.
func statusOnDisk(blocks []event.Block, offsets event.Offsets) (*run.Status, error) {
	c, err := online.ReadConfig(blocks)
	if err != nil {
		return nil, err
	}
	l, err := online.Restore(c, blocks)
	if err != nil {
		return nil, err
	}
	s := &run.Status{NotReady: "on disk", Learner: l.Report()}
	if s.Warnings, err = health.ReadWarnings(blocks); err != nil {
		return nil, err
	}
	for _, p := range offsets {
		s.Partitions = append(s.Partitions, run.PartitionStatus{Position: p, HighWater: -1})
	}
	return s, nil
}

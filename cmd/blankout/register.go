package main

// The command register makes a model known to an MLflow tracking server.

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"blankout/client/mlflow"
)

func (p *program) register() *cobra.Command {
	server := mlflow.FromEnvironment()
	var r mlflow.Registration
	var model, measures string
	var asJSON bool
	c := &cobra.Command{
		Use:   "register -m MODEL --name NAME",
		Short: "Register a model and its measures with an MLflow tracking server",
		Long: `register makes a run in MLflow with what is known of the model, stores its file there
and makes it the newest version of the registered model NAME. Measures are those of a
checkpoint and, with --measures, the numbers of a file that predict --json or train --json
wrote. mlflow.pyfunc loads such a model where the Python package is installed.

The server is that of --server or MLFLOW_TRACKING_URI; MLFLOW_TRACKING_TOKEN, or
MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, are sent if they are set.`,
		Example: "  blankout register -m checkpoints --name fraud\n" +
			"  blankout register -m checkpoints --name fraud --measures measures.json --json",
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if r.Name == "" {
				return usageError{errors.New("register: name the registered model with --name")}
			}
			if server.URL == "" {
				return usageError{errors.New("register: name the tracking server with --server http://HOST:PORT or in MLFLOW_TRACKING_URI")}
			}
			var err error
			if r.Model, err = readModel(model); err != nil {
				return fmt.Errorf("register: %w", err)
			}
			r.Params = map[string]string{
				"loss": r.Model.Loss, "noise": r.Model.Noise, "trained": r.Model.Trained, "events": strconv.FormatUint(r.Model.Events, 10),
				"classes": strings.Join(r.Model.Schema.Classes, ","),
			}
			if r.Measures, err = measuresOf(model, measures); err != nil {
				return fmt.Errorf("register: %w", err)
			}
			registered, err := server.Register(c.Context(), r)
			if err != nil {
				return fmt.Errorf("register: %w", err)
			}
			if asJSON {
				return json.NewEncoder(p.stdout).Encode(registered)
			}
			p.note(fmt.Sprintf("registered %s as version %s of %s, run %s", model, registered.Version, registered.Name, registered.Run))
			return nil
		},
	}
	f := c.Flags()
	f.StringVarP(&model, "model", "m", "", "model, checkpoint or snapshot `FILE`, a directory of checkpoints, or an address")
	f.StringVar(&r.Name, "name", "", "`NAME` of the registered model")
	f.StringVar(&r.Experiment, "experiment", "", "`NAME` of the experiment (default: that of the model)")
	f.StringVar(&measures, "measures", "", "log the numbers of the JSON object in `FILE` too")
	f.StringVar(&server.URL, "server", server.URL, "`URL` of the tracking server (default: MLFLOW_TRACKING_URI)")
	f.Lookup("server").DefValue = "" // of the help, not of this machine
	f.BoolVar(&asJSON, "json", false, "name, version, run and source as one JSON object on standard output")
	return c
}

// measuresOf returns the numbers that a checkpoint tells of its learning, and those of the
// JSON object in a file, if one is named.
func measuresOf(model, file string) (map[string]float64, error) {
	all := map[string]any{}
	if !strings.Contains(model, "://") {
		i, err := inspectFile(model, 0)
		if err != nil {
			return nil, err
		}
		if i.Progress != nil {
			data, err := json.Marshal(i.Progress)
			if err != nil {
				return nil, err
			}
			if err := json.Unmarshal(data, &all); err != nil {
				return nil, err
			}
		}
	}
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &all); err != nil {
			return nil, refusedError{fmt.Errorf("%s: it is not a JSON object: %w", file, err)}
		}
	}
	out := map[string]float64{}
	for key, value := range all {
		if number, ok := value.(float64); ok {
			out[key] = number
		}
	}
	return out, nil
}

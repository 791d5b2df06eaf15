// Package mlflow registers models with an MLflow tracking server, through its REST API.
package mlflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"blankout"
	"blankout/client"
	"blankout/internal/secret"
)

// Server is a tracking server that stores artifacts for its clients, as mlflow server does
// by default.
type Server struct {
	URL    string       // http:// or https://
	Client *http.Client // nil is one that gives up after a minute
	// Token, or User and Password, are asked for by some servers; "" for none.
	Token, User, Password string
}

// FromEnvironment returns the Server of the variables that MLflow's own clients read.
func FromEnvironment() Server {
	return Server{
		URL: os.Getenv("MLFLOW_TRACKING_URI"), Token: os.Getenv("MLFLOW_TRACKING_TOKEN"),
		User: os.Getenv("MLFLOW_TRACKING_USERNAME"), Password: os.Getenv("MLFLOW_TRACKING_PASSWORD"),
	}
}

// Registration is a model and what is told of it.
type Registration struct {
	Name       string // of the registered model, which is made if there is none
	Experiment string // "" is Name
	Model      *client.Model
	Measures   map[string]float64 // numbers that are none are left out
	Params     map[string]string
}

// Registered is where a model is then.
type Registered struct {
	Name    string `json:"name"`
	Version string `json:"version"` // of the registered model, which MLflow counts
	Run     string `json:"run"`
	Source  string `json:"source"`
}

// modelFile describes the model for mlflow.pyfunc, which loads it by the Python package.
const modelFile = `artifact_path: model
flavors:
  blankout:
    data: model.blankout
  python_function:
    data: model.blankout
    loader_module: blankout.mlflow
utc_time_created: '%s'
`

// Register makes a run with the measures and params of a model, stores its file there, and
// makes it the newest version of the registered model of its name. A run that could not be
// finished is marked as failed.
func (s Server) Register(ctx context.Context, r Registration) (_ *Registered, err error) {
	if u, err := url.Parse(s.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("mlflow: the tracking server %q: want http://HOST:PORT", blankout.Address(s.URL))
	}
	if s.Client == nil {
		s.Client = secret.Client(nil)
	}
	s.URL = strings.TrimSuffix(s.URL, "/")
	experiment, err := s.experiment(ctx, r)
	if err != nil {
		return nil, err
	}
	var created struct {
		Run struct {
			Info struct {
				ID  string `json:"run_id"`
				URI string `json:"artifact_uri"`
			}
		}
	}
	now := time.Now().UnixMilli()
	if err := s.post(ctx, "runs/create", map[string]any{"experiment_id": experiment, "start_time": now}, &created); err != nil {
		return nil, err
	}
	run := created.Run.Info
	defer func() {
		status := "FINISHED"
		if err != nil {
			status = "FAILED"
		}
		ended := s.post(context.WithoutCancel(ctx), "runs/update", map[string]any{"run_id": run.ID, "status": status, "end_time": time.Now().UnixMilli()}, nil)
		err = errors.Join(err, ended)
	}()
	if err := s.log(ctx, run.ID, now, r); err != nil {
		return nil, err
	}
	folder, proxied := strings.CutPrefix(run.URI, "mlflow-artifacts:/")
	if !proxied {
		return nil, fmt.Errorf("mlflow: the server wants its clients to store artifacts in %s themselves: start it with --serve-artifacts", run.URI)
	}
	var data bytes.Buffer
	if err := r.Model.Encode(&data); err != nil {
		return nil, err
	}
	for name, text := range map[string][]byte{"model.blankout": data.Bytes(), "MLmodel": fmt.Appendf(nil, modelFile, time.Now().UTC().Format("2006-01-02 15:04:05.000000"))} {
		where := s.URL + "/api/2.0/mlflow-artifacts/artifacts/" + strings.TrimPrefix(folder, "/") + "/model/" + name
		if err := s.call(ctx, http.MethodPut, where, "application/octet-stream", text, nil); err != nil {
			return nil, fmt.Errorf("mlflow: storing %s: %w", name, err)
		}
	}
	if err := s.post(ctx, "registered-models/create", map[string]any{"name": r.Name}, nil); err != nil && !is(err, "RESOURCE_ALREADY_EXISTS") {
		return nil, err
	}
	var version struct {
		ModelVersion struct{ Version string } `json:"model_version"`
	}
	out := &Registered{Name: r.Name, Run: run.ID, Source: run.URI + "/model"}
	if err := s.post(ctx, "model-versions/create", map[string]any{"name": r.Name, "source": out.Source, "run_id": run.ID}, &version); err != nil {
		return nil, err
	}
	out.Version = version.ModelVersion.Version
	return out, nil
}

// experiment returns the id of the experiment, which is made if there is none.
func (s Server) experiment(ctx context.Context, r Registration) (string, error) {
	name := r.Experiment
	if name == "" {
		name = r.Name
	}
	var made struct {
		ID string `json:"experiment_id"`
	}
	err := s.post(ctx, "experiments/create", map[string]any{"name": name}, &made)
	if err == nil || !is(err, "RESOURCE_ALREADY_EXISTS") {
		return made.ID, err
	}
	var found struct {
		Experiment struct {
			ID string `json:"experiment_id"`
		}
	}
	err = s.call(ctx, http.MethodGet, s.URL+"/api/2.0/mlflow/experiments/get-by-name?experiment_name="+url.QueryEscape(name), "", nil, &found)
	if err != nil {
		return "", fmt.Errorf("mlflow: experiments/get-by-name: %w", err)
	}
	return found.Experiment.ID, nil
}

// log tells a run of the measures and params.
func (s Server) log(ctx context.Context, run string, now int64, r Registration) error {
	metrics, params := []any{}, []any{}
	for _, key := range slices.Sorted(maps.Keys(r.Measures)) {
		if v := r.Measures[key]; !math.IsNaN(v) && !math.IsInf(v, 0) {
			metrics = append(metrics, map[string]any{"key": key, "value": v, "timestamp": now, "step": r.Model.Events})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.Params)) {
		params = append(params, map[string]any{"key": key, "value": r.Params[key]})
	}
	return s.post(ctx, "runs/log-batch", map[string]any{"run_id": run, "metrics": metrics, "params": params}, nil)
}

// Error is what a server says is wrong.
type Error struct {
	Status  string // of HTTP
	Code    string `json:"error_code"`
	Message string `json:"message"`
}

func (e *Error) Error() string {
	if e.Code == "" {
		return e.Status
	}
	return e.Code + ": " + e.Message
}

func is(err error, code string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code
}

func (s Server) post(ctx context.Context, what string, request, answer any) error {
	data, err := json.Marshal(request)
	if err == nil {
		err = s.call(ctx, http.MethodPost, s.URL+"/api/2.0/mlflow/"+what, "application/json", data, answer)
	}
	if err != nil {
		return fmt.Errorf("mlflow: %s: %w", what, err)
	}
	return nil
}

// call makes a request and decodes the answer into answer, if that is not nil.
func (s Server) call(ctx context.Context, method, where, kind string, data []byte, answer any) error {
	request, err := http.NewRequestWithContext(ctx, method, where, bytes.NewReader(data))
	if err != nil {
		return err
	}
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	switch {
	case s.Token != "":
		request.Header.Set("Authorization", "Bearer "+s.Token)
	case s.User != "":
		request.SetBasicAuth(s.User, s.Password)
	}
	response, err := s.Client.Do(request)
	if err != nil {
		return blankout.HideAddresses(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		e := &Error{}
		_ = json.Unmarshal(text, e) // else the status says it
		e.Status = response.Status
		return e
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

package mlflow_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"blankout"
	"blankout/client"
	"blankout/client/mlflow"
	"blankout/record"
)

// tracking stands in for an MLflow server: it checks what is asked of it and answers as the
// REST API's documentation says. It is not MLflow; .ci/mlflow registers with a real one.
type tracking struct {
	t      *testing.T
	known  bool   // the experiment and the registered model are there already
	fails  string // the call that is refused, "" for none
	uri    string // of artifacts
	asked  []string
	bodies map[string]map[string]any
	files  map[string][]byte
}

func (s *tracking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what, ok := strings.CutPrefix(r.URL.Path, "/api/2.0/mlflow/")
	if !ok {
		what = strings.TrimPrefix(r.URL.Path, "/api/2.0/")
	}
	s.asked = append(s.asked, r.Method+" "+what)
	if got := r.Header.Get("Authorization"); got != "Bearer secret" {
		s.t.Errorf("%s: authorization %q", what, got)
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	if what == s.fails {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"error_code":"PERMISSION_DENIED","message":"not you"}`)
		return
	}
	if name, ok := strings.CutPrefix(what, "mlflow-artifacts/artifacts/7/r1/artifacts/model/"); ok {
		s.files[name] = data
		return
	}
	if r.Method == http.MethodPost {
		body := map[string]any{}
		if err := json.Unmarshal(data, &body); err != nil || r.Header.Get("Content-Type") != "application/json" {
			s.t.Errorf("%s: %v, %q of type %q", what, err, data, r.Header.Get("Content-Type"))
		}
		s.bodies[what] = body
	}
	there := func() bool {
		if s.known {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error_code":"RESOURCE_ALREADY_EXISTS","message":"there"}`)
		}
		return s.known
	}
	switch what {
	case "experiments/create":
		if !there() {
			fmt.Fprint(w, `{"experiment_id":"7"}`)
		}
	case "experiments/get-by-name":
		fmt.Fprintf(w, `{"experiment":{"experiment_id":"7","name":%q}}`, r.URL.Query().Get("experiment_name"))
	case "runs/create":
		fmt.Fprintf(w, `{"run":{"info":{"run_id":"r1","artifact_uri":%q}}}`, s.uri)
	case "registered-models/create":
		if !there() {
			fmt.Fprint(w, `{}`)
		}
	case "model-versions/create":
		fmt.Fprint(w, `{"model_version":{"version":"3"}}`)
	case "runs/log-batch", "runs/update":
		fmt.Fprint(w, `{}`)
	default:
		s.t.Errorf("asked for %s %s", r.Method, what)
		w.WriteHeader(http.StatusNotFound)
	}
}

func register(s *tracking) (*mlflow.Registered, error) {
	s.bodies, s.files = map[string]map[string]any{}, map[string][]byte{}
	if s.uri == "" {
		s.uri = "mlflow-artifacts:/7/r1/artifacts"
	}
	server := httptest.NewServer(s)
	defer server.Close()
	m := client.New(blankout.NewLinear(blankout.NewSchema(4, []string{"no", "yes"}, 2), "logistic", "none", [][]float64{{0, 1}}, []float64{0.5}), record.DefaultConfig())
	return mlflow.Server{URL: server.URL + "/", Token: "secret"}.Register(s.t.Context(), mlflow.Registration{Name: "fraud", Experiment: "night ly", Model: m,
		Measures: map[string]float64{"error": 3.5, "auc": math.NaN()}, Params: map[string]string{"loss": "logistic"}})
}

// A model, its measures and its description reach the server in calls that it knows; what is
// there already is used.
func TestRegister(t *testing.T) {
	for _, known := range []bool{false, true} {
		s := &tracking{t: t, known: known}
		got, err := register(s)
		if err != nil {
			t.Fatal(err)
		}
		if want := (mlflow.Registered{Name: "fraud", Version: "3", Run: "r1", Source: "mlflow-artifacts:/7/r1/artifacts/model"}); *got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if by := strings.Contains(strings.Join(s.asked, " "), "GET experiments/get-by-name"); by != known {
			t.Errorf("asked %q", s.asked)
		}
		if file, err := client.Decode(s.files["model.blankout"]); err != nil || file.Loss != "logistic" {
			t.Errorf("the file that was stored: %v", err)
		}
		if !bytes.Contains(s.files["MLmodel"], []byte("loader_module: blankout.mlflow")) {
			t.Errorf("MLmodel: %s", s.files["MLmodel"])
		}
		for what, want := range map[string]map[string]any{
			"experiments/create":       {"name": "night ly"},
			"runs/create":              {"experiment_id": "7"},
			"registered-models/create": {"name": "fraud"},
			"model-versions/create":    {"name": "fraud", "source": got.Source, "run_id": "r1"},
			"runs/update":              {"run_id": "r1", "status": "FINISHED"},
			"runs/log-batch":           {"run_id": "r1"},
		} {
			for key, value := range want {
				if s.bodies[what][key] != value {
					t.Errorf("%s: %s is %v, want %v", what, key, s.bodies[what][key], value)
				}
			}
		}
		metrics, _ := s.bodies["runs/log-batch"]["metrics"].([]any)
		if len(metrics) != 1 || metrics[0].(map[string]any)["key"] != "error" || metrics[0].(map[string]any)["value"] != 3.5 {
			t.Errorf("metrics %v: what is no number is left out", metrics)
		}
	}
}

// What a server refuses is told with its own words and the call, and the run is marked as
// failed; a server whose clients must store elsewhere is told of before anything is stored.
func TestRegisterFails(t *testing.T) {
	for _, what := range []string{"experiments/create", "runs/create", "runs/log-batch", "mlflow-artifacts/artifacts/7/r1/artifacts/model/MLmodel", "registered-models/create", "model-versions/create"} {
		s := &tracking{t: t, fails: what}
		_, err := register(s)
		var refused *mlflow.Error
		if !errors.As(err, &refused) || refused.Code != "PERMISSION_DENIED" || !strings.Contains(err.Error(), what[strings.LastIndexByte(what, '/')+1:]) {
			t.Errorf("%s: %v", what, err)
		}
		if begun := !strings.HasSuffix(what, "s/create") || strings.HasPrefix(what, "registered") || strings.HasPrefix(what, "model-"); begun && s.bodies["runs/update"]["status"] != "FAILED" {
			t.Errorf("%s: the run is %v", what, s.bodies["runs/update"])
		}
	}
	s := &tracking{t: t, uri: "s3://bucket/7/r1"}
	if _, err := register(s); err == nil || !strings.Contains(err.Error(), "--serve-artifacts") || len(s.files) > 0 {
		t.Errorf("artifacts elsewhere: %v", err)
	}
	if _, err := (mlflow.Server{URL: "tracking:5000"}).Register(t.Context(), mlflow.Registration{}); err == nil || !strings.Contains(err.Error(), "want http://HOST:PORT") {
		t.Errorf("no URL: %v", err)
	}
}

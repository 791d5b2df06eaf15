package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"blankout/client"
)

// startTracking is the script command "tracking": it starts what answers as an MLflow
// tracking server does, by its REST reference, and refuses what that refuses. .ci/mlflow
// runs the real one.
func startTracking(ts *testscript.TestScript, neg bool, args []string) {
	made := map[string]bool{} // experiments and registered models
	versions, files, logged, finished := 0, 0, "", ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		ts.Check(err)
		refuse := func(status int, code string) {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error_code":%q,"message":"as the test has it"}`, code)
		}
		if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var asked map[string]any
		if r.Method == http.MethodPost && json.Unmarshal(body, &asked) != nil {
			refuse(http.StatusBadRequest, "BAD_REQUEST")
			return
		}
		name := fmt.Sprint(asked["name"])
		switch what := strings.TrimPrefix(r.URL.Path, "/api/2.0/mlflow/"); {
		case what == "experiments/create" || what == "registered-models/create":
			if made[what+name] {
				refuse(http.StatusBadRequest, "RESOURCE_ALREADY_EXISTS")
				return
			}
			made[what+name] = true
			fmt.Fprint(w, `{"experiment_id":"7"}`)
		case what == "experiments/get-by-name":
			fmt.Fprint(w, `{"experiment":{"experiment_id":"7"}}`)
		case what == "runs/create" && asked["experiment_id"] == "7":
			files, logged, finished = 0, "", ""
			fmt.Fprint(w, `{"run":{"info":{"run_id":"run-1","artifact_uri":"mlflow-artifacts:/7/run-1/artifacts"}}}`)
		case what == "runs/log-batch" && asked["run_id"] == "run-1":
			logged = string(body)
			fmt.Fprint(w, `{}`)
		case r.Method == http.MethodPut && what == "/api/2.0/mlflow-artifacts/artifacts/7/run-1/artifacts/model/model.blankout":
			if _, err := client.Decode(body); err != nil {
				refuse(http.StatusBadRequest, "BAD_REQUEST")
				return
			}
			files++
		case r.Method == http.MethodPut && strings.HasSuffix(what, "/7/run-1/artifacts/model/MLmodel") && strings.Contains(string(body), "loader_module: blankout.mlflow"):
			files++
		case what == "model-versions/create" && files == 2 && strings.Contains(logged, `"key":"progressive_error"`) && asked["source"] == "mlflow-artifacts:/7/run-1/artifacts/model":
			versions++
			fmt.Fprintf(w, `{"model_version":{"version":"%d"}}`, versions)
		case what == "runs/update":
			finished = fmt.Sprint(asked["status"])
			fmt.Fprint(w, `{}`)
		case what == "/status":
			fmt.Fprint(w, finished, logged)
		default:
			refuse(http.StatusNotFound, "ENDPOINT_NOT_FOUND")
		}
	}))
	ts.Defer(server.Close)
	ts.Setenv("MLFLOW_TRACKING_URI", server.URL)
	ts.Setenv("MLFLOW_TRACKING_USERNAME", "me")
	ts.Setenv("MLFLOW_TRACKING_PASSWORD", "secret")
}

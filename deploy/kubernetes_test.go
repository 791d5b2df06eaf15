package deploy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"blankout/config"
	"blankout/internal/must"
)

// manifest holds the fields of a manifest that these tests check. Other kinds have their own fields in Spec.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Replicas    int
		ServiceName string
		Selector    any // labels for a Service, {matchLabels} for other kinds
		Template    struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Grace      int `json:"terminationGracePeriodSeconds"`
				Containers []struct {
					Args                          []string
					Ports                         []struct{ ContainerPort int }
					Env                           []struct{ Name, Value string }
					Resources                     struct{ Limits map[string]string }
					LivenessProbe, ReadinessProbe struct{ HTTPGet struct{ Path, Port string } }
				}
				Volumes []struct{ ConfigMap struct{ Name string } }
			}
		}
	}
}

// schemas returns testdata/kubernetes-1.36.json: the schemas of Kubernetes 1.36 for the kinds used here and everything
// that they refer to. They reject unknown fields and have no descriptions.
func schemas(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s := must.Get(jsonschema.NewCompiler().Compile("testdata/kubernetes-1.36.json"))(t)
	return s
}

func readManifests(t *testing.T, text []byte, check func(value any) error) (list []manifest) {
	t.Helper()
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var value any
		if err := d.Decode(&value); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		data := must.Get(json.Marshal(value))(t)
		must.Do(t, check(must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(data)))(t)))
		var m manifest
		must.Do(t, json.Unmarshal(data, &m))
		list = append(list, m)
	}
}

// TestKubernetes checks the manifests against the published schemas and against the program. The configuration must be
// valid, the probes must use the program's port, and the grace period must be long enough for a stop. GOMEMLIMIT must
// be below the memory limit, and selectors must select the pods.
func TestKubernetes(t *testing.T) {
	files, err := filepath.Glob("kubernetes/*.yaml")
	must.Require(t, err == nil && len(files) == 3, "%v %v", files, err)
	published := schemas(t)
	names := map[string]string{}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			must.Do(t, err)
			configs, pods := map[string]*config.Loaded{}, 0
			list := readManifests(t, text, published.Validate)
			for _, m := range list {
				if id := m.Kind + " " + m.Metadata.Name; names[id] != "" {
					t.Errorf("%s is in %s too", id, names[id])
				} else {
					names[id] = file
				}
				if m.Kind == "ConfigMap" {
					path := must.File(t, "blankout.toml", m.Data["blankout.toml"])
					configs[m.Metadata.Name], err = config.Load(config.Source{File: path})
					must.Require(t, err == nil, "%v", err)
				}
			}
			for _, m := range list {
				if m.Kind != "StatefulSet" && m.Kind != "Deployment" {
					continue
				}
				pods++
				spec := m.Spec.Template.Spec
				c := spec.Containers[0]
				loaded := configs[spec.Volumes[0].ConfigMap.Name]
				must.Require(t, loaded != nil, "there is no ConfigMap %q", spec.Volumes[0].ConfigMap.Name)
				_, port, err := net.SplitHostPort(loaded.HTTP.Address)
				must.True(t, err == nil && fmt.Sprint(c.Ports[0].ContainerPort) == port, "%s: the port is %d, the program's %s (%v)", m.Metadata.Name, c.Ports[0].ContainerPort, port, err)
				must.True(t, c.LivenessProbe.HTTPGet.Path == "/healthz" && c.ReadinessProbe.HTTPGet.Path == "/readyz", "%+v, %+v", c.LivenessProbe, c.ReadinessProbe)
				grace := time.Duration(spec.Grace) * time.Second
				must.True(t, grace > loaded.Checkpoint.ShutdownTimeout, "%s: killed after %v, it may take %v to stop", m.Metadata.Name, grace, loaded.Checkpoint.ShutdownTimeout)
				limit, err := humanize.ParseBytes(c.Resources.Limits["memory"] + "B")
				soft := uint64(0)
				if err == nil && c.Env[0].Name == "GOMEMLIMIT" {
					soft, err = humanize.ParseBytes(c.Env[0].Value)
				}
				must.True(t, err == nil && soft < limit && soft >= limit/2, "%s: GOMEMLIMIT %d of %d: %v", m.Metadata.Name, soft, limit, err)
				must.True(t, strings.HasPrefix(strings.Join(c.Args, " "), "run ") && c.Args[len(c.Args)-1] == "/etc/blankout/blankout.toml", "%q", c.Args)
				labels := fmt.Sprint(m.Spec.Template.Metadata.Labels)
				for _, other := range list {
					if other.Spec.Selector == nil {
						continue
					}
					selector, _ := other.Spec.Selector.(map[string]any)
					if matched, ok := selector["matchLabels"].(map[string]any); ok {
						selector = matched
					}
					must.True(t, fmt.Sprint(selector) == labels, "%s %s selects %v, the pods are %s", other.Kind, other.Metadata.Name, selector, labels)
				}
				switch {
				case m.Kind == "StatefulSet" && loaded.Group.Name != "":
					must.True(t, loaded.Checkpoint.Objects() && loaded.DeadLetter.Topic != "", "members of a group have checkpoints in %s", loaded.Checkpoint.Directory)
				case m.Kind == "StatefulSet" && (m.Spec.Replicas != 1 || loaded.Checkpoint.Directory != "/data/checkpoints"):
					t.Errorf("%d learners of %s", m.Spec.Replicas, loaded.Checkpoint.Directory)
				case m.Kind == "Deployment" && loaded.Predict.Model == "":
					t.Errorf("%s: several learners that know nothing of each other", m.Metadata.Name)
				}
			}
			must.True(t, pods == 1, "%d kinds of pods", pods)
		})
	}
}

// TestKubernetesSchemas checks that the schemas reject a misspelled field and a value of the wrong type.
func TestKubernetesSchemas(t *testing.T) {
	text := must.Get(os.ReadFile("kubernetes/learner.yaml"))(t)
	published := schemas(t)
	for _, change := range [][2]string{{"terminationGracePeriodSeconds: 20", "terminationGraceSeconds: 20"}, {"replicas: 1", "replicas: one"}, {"serviceName: blankout", "service: blankout"}, {"{name: http, containerPort", "{name: http, hostsPort: 1, containerPort"}} {
		wrong := 0
		changed := strings.Replace(string(text), change[0], change[1], 1)
		must.Require(t, changed != string(text), "no %q", change[0])
		for d := yaml.NewDecoder(strings.NewReader(changed)); ; {
			var value any
			if err := d.Decode(&value); err != nil {
				break
			}
			data := must.Get(json.Marshal(value))(t)
			again := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(data)))(t)
			if published.Validate(again) != nil {
				wrong++
			}
		}
		must.True(t, wrong == 1, "%q: %d manifests are refused", change[1], wrong)
	}
}

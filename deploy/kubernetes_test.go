package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
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
	for value := range must.All(t, decoded[any](text)) {
		data := must.Get(json.Marshal(value))(t)
		must.Do(t, check(must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(data)))(t)))
		var m manifest
		must.Do(t, json.Unmarshal(data, &m))
		list = append(list, m)
	}
	return list
}

// decoded returns a function that returns the next document of a YAML text.
func decoded[T any](text []byte) func() (T, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	return func() (value T, err error) {
		err = d.Decode(&value)
		return value, err
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
			text := must.Get(os.ReadFile(file))(t)
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

// helm runs helm on the chart and returns its output. If helm is not installed the test is skipped, or fails if
// BLANKOUT_REQUIRE_HELM is set.
func helm(t *testing.T, args ...string) []byte {
	t.Helper()
	path, err := exec.LookPath("helm")
	if err != nil {
		if os.Getenv("BLANKOUT_REQUIRE_HELM") == "" {
			t.Skip("there is no helm; .ci/helm fetches one")
		}
		t.Fatal(err)
	}
	command := exec.Command(path, args...)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	must.Require(t, err == nil, "helm %q: %v\n%s%s", args, err, out, &said)
	return out
}

// objects returns the objects of manifests by kind and name. It removes fields that only the chart sets: the labels of
// the release and the hash of the configuration.
func objects(t *testing.T, text []byte) map[string]any {
	t.Helper()
	out := map[string]any{}
	var strip func(v any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "app.kubernetes.io/instance")
			delete(v, "checksum/config")
			for _, inner := range v {
				strip(inner)
			}
		case []any:
			for _, inner := range v {
				strip(inner)
			}
		}
	}
	for value := range must.All(t, decoded[map[string]any](text)) {
		strip(value)
		out[value["kind"].(string)+" "+value["metadata"].(map[string]any)["name"].(string)] = value
	}
	return out
}

// TestHelm checks that helm lint accepts the chart and that a release called blankout equals the plain manifests.
// TestKubernetes checks these manifests.
func TestHelm(t *testing.T) {
	helm(t, "lint", "--strict", "helm/blankout")
	rendered := objects(t, helm(t, "template", "--kube-version", "1.36.0", "blankout", "helm/blankout", "--set", "followers.replicas=2"))
	plain := map[string]any{}
	for _, name := range []string{"learner", "followers"} {
		text := must.Get(os.ReadFile("kubernetes/" + name + ".yaml"))(t)
		for id, object := range objects(t, text) {
			plain[id] = object
		}
	}
	must.True(t, len(rendered) == len(plain), "%d objects, the manifests have %d", len(rendered), len(plain))
	for id, want := range plain {
		if got := rendered[id]; !reflect.DeepEqual(got, want) {
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(want)
			t.Errorf("%s is\n%s\nthe manifest says\n%s", id, a, b)
		}
	}
}

// TestHelmSettings checks that two releases in one namespace share no object, that every setting has an effect, and
// that the results follow the published schemas.
func TestHelmSettings(t *testing.T) {
	text := helm(t, "template", "--kube-version", "1.36.0", "fraud", "helm/blankout", "--set", "followers.replicas=3", "--set", "secrets={kafka,aws}",
		"--set", "learner.storageClass=fast", "--set", "learner.storage=20Gi", "--set", "image=registry.example.com/blankout@sha256:0")
	list := readManifests(t, text, schemas(t).Validate)
	names := must.Map(list, func(m manifest) string { return m.Kind + " " + m.Metadata.Name })
	slices.Sort(names)
	want := []string{"ConfigMap fraud", "ConfigMap fraud-followers", "Deployment fraud-predict", "PodDisruptionBudget fraud-predict", "Service fraud", "Service fraud-predict", "StatefulSet fraud"}
	must.True(t, slices.Equal(names, want), "%q, want %q", names, want)
	for what, n := range map[string]int{
		`hosts = ["fraud", "fraud-0.fraud"]`: 1, `model = "http://fraud-0.fraud:8642"`: 1, "storageClassName: \"fast\"": 1, "storage: \"20Gi\"": 1,
		"replicas: 3": 1, `secretRef: {name: "aws"}`: 2, `image: "registry.example.com/blankout@sha256:0"`: 2, "{{": 0,
	} {
		got := strings.Count(string(text), what)
		must.True(t, got == n, "%d times %q, want %d", got, what, n)
	}
	// The chart has only the learner if there are no followers.
	alone := objects(t, helm(t, "template", "--kube-version", "1.36.0", "fraud", "helm/blankout"))
	must.True(t, len(alone) == 3, "%d objects", len(alone))
}

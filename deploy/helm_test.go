package deploy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"blankout/internal/must"
)

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
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var value map[string]any
		if err := d.Decode(&value); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		strip(value)
		out[value["kind"].(string)+" "+value["metadata"].(map[string]any)["name"].(string)] = value
	}
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
	var names []string
	for _, m := range list {
		names = append(names, m.Kind+" "+m.Metadata.Name)
	}
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

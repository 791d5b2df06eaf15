package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"blankout/app/shards"
	"blankout/batch"
	"blankout/internal/must"
	"blankout/serve"
)

// described is openapi.json in a form for comparison with the server. A response object may not have a property that
// its schema does not describe, unless the document marks the object as open.
type described struct {
	paths    map[string]map[string]operation // operations by path and method
	mux      *http.ServeMux                  // finds the path of a request
	compiler *jsonschema.Compiler
	mu       sync.Mutex
	schemas  map[string]*jsonschema.Schema // schemas by position in the document
}

type operation struct {
	OperationID string
	Responses   map[string]struct {
		Ref     string `json:"$ref"`
		Content map[string]any
	}
}

const documentName = "http://blankout/openapi.json"

var documented = sync.OnceValues(func() (*described, error) {
	data := serve.OpenAPI
	d := &described{mux: http.NewServeMux(), compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &struct{ Paths any }{&d.paths}); err != nil {
		return nil, err
	}
	for path := range d.paths {
		d.mux.Handle(strings.TrimSuffix(path, "/")+map[bool]string{true: "/{$}"}[path == "/"], http.NotFoundHandler())
	}
	closeObjects(doc)
	return d, d.compiler.AddResource(documentName, doc)
})

// schema compiles the schema at a JSON pointer into the document.
func (d *described) schema(pointer string) (s *jsonschema.Schema, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s = d.schemas[pointer]; s == nil {
		if s, err = d.compiler.Compile(documentName + "#" + pointer); err == nil {
			d.schemas[pointer] = s
		}
	}
	return s, err
}

func closeObjects(x any) {
	switch x := x.(type) {
	case map[string]any:
		properties, described := x["properties"].(map[string]any)
		if _, said := x["additionalProperties"]; described && len(properties) > 0 && !said && x["type"] != nil {
			x["additionalProperties"] = false
		}
		for _, value := range x {
			closeObjects(value)
		}
	case []any:
		for _, value := range x {
			closeObjects(value)
		}
	}
}

// asDocumented returns an error that describes how a response differs from openapi.json, or nil if it does not.
func asDocumented(request *http.Request, status int, header http.Header, body []byte) error {
	d, err := documented()
	if err != nil {
		return err
	}
	if status == http.StatusRequestHeaderFieldsTooLarge {
		return nil // net/http itself sends this response
	}
	if status == http.StatusTemporaryRedirect || status == http.StatusMovedPermanently {
		return nil // redirects to the clean path, which the document omits
	}
	_, path := d.mux.Handler(request)
	path = strings.TrimSuffix(path, "{$}")
	method := map[string]string{"GET": "get", "HEAD": "get", "POST": "post"}[request.Method] // methods are case-sensitive
	o, ok := d.paths[path][method]
	if !ok {
		if slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnauthorized, http.StatusForbidden, http.StatusMisdirectedRequest}, status) {
			return nil // errors of routing and access need no description
		}
		return fmt.Errorf("no operation %s %q", method, path)
	}
	answer, ok := o.Responses[strconv.Itoa(status)]
	if !ok {
		return fmt.Errorf("%s has no answer %d", o.OperationID, status)
	}
	at := "/paths/" + pointer(path) + "/" + method + "/responses/" + strconv.Itoa(status)
	if name, shared := strings.CutPrefix(answer.Ref, "#"); shared {
		at, answer.Content = name, map[string]any{"application/json": nil}
	}
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if len(answer.Content) == 0 || request.Method == "HEAD" {
		if len(body) > 0 {
			return fmt.Errorf("%s %d has a body", o.OperationID, status)
		}
		return nil
	}
	if _, any := answer.Content["*/*"]; any {
		return nil
	}
	if _, ok := answer.Content[kind]; !ok || err != nil {
		return fmt.Errorf("%s %d is %q (%v)", o.OperationID, status, kind, err)
	}
	if kind != "application/json" {
		return nil
	}
	schema, err := d.schema(at + "/content/" + pointer(kind) + "/schema")
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// pointer escapes a name for a JSON pointer in the fragment of a URL.
func pointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(name)
}

// TestOpenAPI checks that the document is valid by the published schema of OpenAPI 3.1. It must describe exactly the
// requests that the server handles.
func TestOpenAPI(t *testing.T) {
	text := serve.OpenAPI
	document := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(t)
	form := must.Get(jsonschema.NewCompiler().Compile("testdata/openapi/schema-3.1.json"))(t) // the published schema without whitespace
	must.Do(t, form.Validate(document))
	_, service := learned(t)
	service.Reports, _ = must.Get2(serve.OpenReports("", 1))(t)
	service.Validate = func() error { return nil }
	service.Promote = func(context.Context, string) error { return nil }
	service.Group = func() *shards.Status { return nil }
	service.Learn = func() serve.Acceptor { return nil }
	routes := serve.Routes(serve.DefaultConfig(), service)
	for i, route := range routes {
		routes[i] = map[string]string{"GET /{$}": "GET /", "GET /page/": "GET /page/{file}"}[route]
		if routes[i] == "" {
			routes[i] = route
		}
	}
	url := start(t, serve.DefaultConfig(), service)
	_, served, _ := call(t, "GET", url+"/openapi.json", "")
	must.True(t, served == string(text), "another document is served")
	d := must.Get(documented())(t)
	var described []string
	ids := map[string]string{}
	for path, methods := range d.paths {
		for method, o := range methods {
			described = append(described, strings.ToUpper(method)+" "+path)
			must.True(t, ids[o.OperationID] == "" && o.OperationID != "", "%s %s has the name %q of %s", method, path, o.OperationID, ids[o.OperationID])
			ids[o.OperationID] = path
			for status, answer := range o.Responses {
				for kind := range answer.Content {
					must.Do(t, must.Err(d.schema("/paths/"+pointer(path)+"/"+method+"/responses/"+status+"/content/"+pointer(kind)+"/schema")))
				}
			}
		}
	}
	slices.Sort(routes)
	slices.Sort(described)
	must.True(t, slices.Equal(routes, described), "answered:\n%s\ndescribed:\n%s", strings.Join(routes, "\n"), strings.Join(described, "\n"))
}

// TestResponsesAreDocumented sends every described request, before and after the server has data. The responses must be
// as described. The function call makes the same check for all other requests of this package's tests.
func TestResponsesAreDocumented(t *testing.T) {
	runner, service := learned(t)
	service.Reports, _ = must.Get2(serve.OpenReports("", 3))(t)
	refuse := errors.New("the events cannot be read again")
	service.Validate = func() error { return refuse }
	var member *shards.Status
	service.Group = func() *shards.Status { return member }
	url := start(t, serve.DefaultConfig(), service)
	seen := map[string]bool{}
	ask := func() {
		for _, route := range serve.Routes(serve.DefaultConfig(), service) {
			method, path, _ := strings.Cut(route, " ")
			for pattern, value := range map[string]string{"{$}": "", "/page/": "/page/page.js", "{id}": "latest"} {
				path = strings.ReplaceAll(path, pattern, value)
			}
			if path == "/v1/events" { // tested by TestEvents
				continue
			}
			body := must.Either(method == "POST", `{"word":"yes1","x":1}`, "")
			status, _, _ := call(t, method, url+path, body)
			seen[fmt.Sprintf("%s %d", route, status)] = true
		}
		call(t, "GET", url+"/v1/model?weights=1", "", "Accept", "application/json")
		call(t, "GET", url+"/v1/model", "", "Accept", "application/json")
	}
	ask()
	must.Do(t, runner.Run(t.Context()))
	member, refuse = &shards.Status{}, nil
	must.Do(t, service.Reports.Add(&batch.Validation{ID: "r1"}))
	ask()
	for _, route := range []string{"GET /readyz 503", "GET /v1/features 200", "GET /v1/features 503", "GET /v1/newest 204", "GET /v1/measures 200", "POST /v1/predict 200", "POST /v1/predict 503",
		"GET /v1/group 200", "GET /v1/group 503", "GET /v1/reports/{id} 200", "GET /v1/reports/{id} 404", "POST /v1/validate 202", "POST /v1/validate 409"} {
		must.True(t, seen[route], "no answer %s", route)
	}
}

// TestUndocumented checks that asDocumented detects responses without a description.
func TestUndocumented(t *testing.T) {
	request := httptest.NewRequest("GET", "/healthz", nil)
	header := http.Header{"Content-Type": {"application/json"}}
	for _, c := range []struct {
		status int
		body   string
		fine   bool
	}{{200, `{"healthy":true}`, true}, {200, `{"healthy":1}`, false}, {200, `{}`, false}, {200, `{"healthy":true,"more":1}`, false}, {418, `{"healthy":true}`, false}} {
		wrong := asDocumented(request, c.status, header, []byte(c.body))
		must.True(t, (wrong == nil) == c.fine, "%d %s: %v", c.status, c.body, wrong)
	}
}

package serve

import (
	_ "embed"
	"net/http"
)

// openAPI is an OpenAPI 3.1 document of every request that a Server answers, but profiles.
//
//go:embed openapi.json
var openAPI []byte

// serveOpenAPI answers GET /openapi.json.
func serveOpenAPI(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI)
}

package predict

// A service that does not learn takes its model from one that does: it follows
// the learner's server, snapshot topic or file, from before there is a first model,
// and through everything that cuts it off.

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"blankout/internal/event"
	"blankout/internal/secret"
	"blankout/internal/served"
	"blankout/stream"
)

// Follow begins to follow the model of the Config, until Close of the Follower; o says
// what the Config does not. A place that has no model yet, or is out of reach, is
// asked again.
func (c Config) Follow(o served.Options) (*served.Follower, error) {
	var err error
	if o.Token, err = c.Token(); err != nil {
		return nil, err
	}
	if o.Client, err = c.Client(); err != nil {
		return nil, err
	}
	o.Interval, o.Wait = c.ModelInterval, true
	return served.Follow(context.Background(), string(c.Model), o)
}

// checkModel says what is wrong with a place to find a model.
func checkModel(where string) error {
	scheme, address, ok := strings.Cut(where, "://")
	switch {
	case !ok: // a file
	case strings.Contains(address, "@"):
		// An address appears in logs and configurations, so no secret may stand in it.
		return event.KeyErrorf("model", "model: the address contains a user or password: put the token in token_file or BLANKOUT_HTTP_TOKEN")
	case scheme != "http" && scheme != "https" && scheme != "kafka" && scheme != "s3":
		return event.KeyErrorf("model", "model: %q, want http://HOST:PORT, kafka://HOST:PORT/TOPIC, s3://BUCKET/KEY, a file or a directory", event.Address(where))
	}
	return nil
}

// Client returns what asks the server of the model, nil for the default, where no
// file of TLS is named.
func (c Config) Client() (*http.Client, error) {
	if c.CAFile == "" && c.CertFile == "" {
		return nil, nil
	}
	files := stream.TLSConfig{Enabled: true, CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile}
	secure, err := files.Load()
	if err != nil {
		return nil, err
	}
	asks := secret.Client(secure)
	asks.CheckRedirect = nil // package client follows redirects, and takes the token out
	return asks, nil
}

// Token returns the token that the server of the model wants, "" if none is set.
func (c Config) Token() (string, error) {
	token, err := secret.Read(c.TokenFile, c.TokenEnv)
	if err != nil {
		return "", fmt.Errorf("token_file: %w", err)
	}
	return token, nil
}

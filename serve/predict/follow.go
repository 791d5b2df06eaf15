package predict

// This file gets the model for a service that does not learn. It follows a learner's server, snapshot topic or file,
// waits for the first model, and reconnects after failures.

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/secret"
	"blankout/stream"
)

// Follow starts to follow the model of the Config, until the Follower is closed. The argument o has all other options.
// A source that has no model or cannot be reached is tried again.
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

// checkModel returns an error if the address of a model is invalid.
func checkModel(where string) error {
	scheme, address, ok := strings.Cut(where, "://")
	switch {
	case !ok: // a file name
	case strings.Contains(address, "@"):
		// An address appears in logs and configurations, so it must not contain a secret.
		return event.KeyErrorf("model", "model: the address contains a user or password: put the token in token_file or BLANKOUT_HTTP_TOKEN")
	case scheme != "http" && scheme != "https" && scheme != "kafka" && scheme != "s3":
		return event.KeyErrorf("model", "model: %q, want http://HOST:PORT, kafka://HOST:PORT/TOPIC, s3://BUCKET/KEY, a file or a directory", event.Address(where))
	}
	return nil
}

// Client returns the HTTP client for the server of the model. It returns nil, which means the default client, if no TLS
// files are configured.
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
	asks.CheckRedirect = nil // package client follows redirects itself and then removes the token
	return asks, nil
}

// Token returns the token for the server of the model, or "" if no token is set.
func (c Config) Token() (string, error) {
	token, err := secret.Read(c.TokenFile, c.TokenEnv)
	if err != nil {
		return "", fmt.Errorf("token_file: %w", err)
	}
	return token, nil
}

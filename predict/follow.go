package predict

// A service that does not learn takes its model from one that does: it follows
// the learner's server, snapshot topic or file, from before there is a first model,
// and through everything that cuts it off.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"blankout"
	"blankout/client"
	"blankout/internal/secret"
	"blankout/stream"
)

// Followed is the model of a learner elsewhere. Unlike a client.Follower it is
// there before the model is, and it says in the log when it is cut off.
type Followed struct {
	stop     context.CancelFunc
	done     chan struct{}
	follower atomic.Pointer[client.Follower]
}

// Follow begins to follow, until Close. A place that cannot be one fails at once;
// one that has no model yet, or is out of reach, is asked again.
func Follow(where string, o client.Options, log *slog.Logger) (*Followed, error) {
	if err := checkModel(where); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	f := &Followed{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		f.follow(ctx, where, o, log)
	}()
	return f, nil
}

// checkModel says what is wrong with a place to find a model.
func checkModel(where string) error {
	scheme, address, ok := strings.Cut(where, "://")
	switch {
	case !ok: // a file
	case strings.Contains(address, "@"):
		// An address stands in logs and configurations: no place for a secret.
		return blankout.KeyErrorf("model", "model: the address holds a user or password: a token belongs in token_file, or in the variable of token_env")
	case scheme != "http" && scheme != "https" && scheme != "kafka":
		return blankout.KeyErrorf("model", "model: %q, want http://HOST:PORT, kafka://HOST:PORT/TOPIC, a file or a directory", where)
	}
	return nil
}

func (f *Followed) follow(ctx context.Context, where string, o client.Options, log *slog.Logger) {
	trouble := "" // the one that has been told
	tell := func(err error) {
		switch {
		case err == nil && trouble != "":
			log.Info("the model can be followed again", "where", where)
			trouble = ""
		case err != nil && err.Error() != trouble && !errors.Is(err, context.Canceled):
			trouble = err.Error()
			log.Warn("the model cannot be followed; it is tried again", "where", where, "err", err)
		}
	}
	tick := time.NewTicker(max(o.Interval, 100*time.Millisecond))
	defer tick.Stop()
	for {
		if follower := f.follower.Load(); follower == nil {
			follower, err := client.Follow(ctx, where, o)
			tell(err)
			if err == nil {
				f.follower.Store(follower)
				defer follower.Close()
			}
		} else {
			_, err := follower.Model()
			tell(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Model returns the newest model, nil before the first.
func (f *Followed) Model() *client.Model {
	if follower := f.follower.Load(); follower != nil {
		m, _ := follower.Model()
		return m
	}
	return nil
}

// Close stops following.
func (f *Followed) Close() {
	f.stop()
	<-f.done
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
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	return &http.Client{Timeout: time.Minute, Transport: transport}, nil
}

// Token returns the token that the server of the model wants, "" if none is set.
func (c Config) Token() (string, error) {
	token, err := secret.Read(c.TokenFile, c.TokenEnv)
	if err != nil {
		return "", fmt.Errorf("token_file: %w", err)
	}
	return token, nil
}

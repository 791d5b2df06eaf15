package stream

// This file implements OAUTHBEARER. A client requests a token from an authority with its ID and secret (client
// credentials, RFC 6749, section 4.4). It sends the token to the broker (RFC 7628).

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/segmentio/kafka-go/sasl"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"blankout/internal/event"
	"blankout/internal/secret"
)

const oauthBearer = "OAUTHBEARER"

// checkOAuth checks the settings for OAUTHBEARER.
func (c *SASLConfig) checkOAuth() error {
	if c.Mechanism != oauthBearer {
		switch {
		case c.TokenURL != "":
			return event.KeyErrorf("sasl.token_url", "sasl: token_url needs mechanism OAUTHBEARER")
		case len(c.Scopes) > 0:
			return event.KeyErrorf("sasl.scopes", "sasl: scopes need mechanism OAUTHBEARER")
		case len(c.Extensions) > 0:
			return event.KeyErrorf("sasl.extensions", "sasl: extensions need mechanism OAUTHBEARER")
		case c.TokenCAFile != "":
			return event.KeyErrorf("sasl.token_ca_file", "sasl: token_ca_file needs mechanism OAUTHBEARER")
		}
		return nil
	}
	u, err := url.Parse(string(c.TokenURL))
	switch {
	case c.TokenURL == "":
		return event.KeyErrorf("sasl.token_url", "sasl: OAUTHBEARER needs token_url")
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return event.KeyErrorf("sasl.token_url", "sasl: token_url: want https://HOST/PATH")
	case u.User != nil:
		return event.KeyErrorf("sasl.token_url", "sasl: token_url contains a user or password: put them in username and password_file")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return event.KeyErrorf("sasl.token_url", "sasl: token_url: the secret would go to %s unencrypted: want https", u.Host)
	}
	for key, value := range c.Extensions {
		if !extensionKey.MatchString(key) || key == "auth" || strings.ContainsFunc(value, func(r rune) bool { return r == 1 || r == 0 }) {
			return event.KeyErrorf("sasl.extensions", "sasl: extensions: %q = %q: want a name of letters other than auth, and a value without control characters", key, value)
		}
	}
	return nil
}

// extensionKey matches the key of an extension (RFC 7628, section 3.1).
var extensionKey = regexp.MustCompile(`^[A-Za-z]+$`)

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// oauth is the sasl.Mechanism OAUTHBEARER. It requests a new token when the current token is about to expire.
type oauth struct {
	config     clientcredentials.Config
	client     *http.Client
	extensions string // extensions in the format of the first message

	mu    sync.Mutex
	token *oauth2.Token
}

func (c *SASLConfig) loadOAuth(password string) (sasl.Mechanism, error) {
	t, err := secret.TLS(c.TokenCAFile, "", "")
	if err != nil {
		var key *event.KeyError
		errors.As(err, &key)
		return nil, event.KeyErrorf("sasl.token_ca_file", "sasl: token_ca_file: %w", key.Err)
	}
	asks := secret.Client(t)
	asks.Transport.(*http.Transport).DisableKeepAlives = true // token requests are rare
	o := &oauth{
		config: clientcredentials.Config{ClientID: c.Username, ClientSecret: password, TokenURL: string(c.TokenURL), Scopes: c.Scopes},
		client: asks,
	}
	var keys []string
	for key := range c.Extensions {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		o.extensions += key + "=" + c.Extensions[key] + "\x01"
	}
	return o, nil
}

func (o *oauth) Name() string { return oauthBearer }

// Start returns the first message of an authentication (RFC 7628, section 3.1).
func (o *oauth) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.token.Valid() {
		token, err := o.config.Token(context.WithValue(ctx, oauth2.HTTPClient, o.client))
		if err != nil {
			return nil, nil, fmt.Errorf("asking %s for a token (sasl.token_url): %w", event.Address(o.config.TokenURL), event.HideAddresses(err))
		}
		if strings.ContainsAny(token.AccessToken, "\x00\x01") {
			return nil, nil, fmt.Errorf("asking %s for a token (sasl.token_url): the token holds control characters", event.Address(o.config.TokenURL))
		}
		o.token = token
	}
	return &oauthSession{mechanism: o, token: o.token}, []byte("n,,\x01auth=Bearer " + o.token.AccessToken + "\x01" + o.extensions + "\x01"), nil
}

// oauthSession is one authentication.
type oauthSession struct {
	mechanism *oauth
	token     *oauth2.Token
	refused   string
}

// Next handles the broker's response. An empty response accepts the token. Any other response explains the rejection
// and must be acknowledged (RFC 7628, section 3.2.3) before the broker closes the connection.
func (s *oauthSession) Next(_ context.Context, challenge []byte) (bool, []byte, error) {
	if len(challenge) == 0 && s.refused == "" {
		return true, nil, nil
	}
	if s.refused != "" {
		return false, nil, fmt.Errorf("the broker refuses the token: %s", s.refused)
	}
	s.refused = event.Printable(string(challenge))
	s.mechanism.mu.Lock()
	if s.mechanism.token == s.token { // the token may have been revoked early
		s.mechanism.token = nil
	}
	s.mechanism.mu.Unlock()
	return false, []byte{1}, nil
}

package secret

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"blankout/internal/event"
)

// TLS returns a configuration with the certificate authorities of the PEM file ca and the certificate of the files cert
// and key. An empty name means Go's default. An error is an *event.KeyError for ca_file or cert_file.
func TLS(ca, cert, key string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, event.KeyErrorf("ca_file", "reading ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, event.KeyErrorf("ca_file", "ca_file %s contains no PEM certificate", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, event.KeyErrorf("cert_file", "reading cert_file and key_file: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

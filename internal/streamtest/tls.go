package streamtest

import (
	"blankout/internal/must"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Authority signs certificates of servers and clients at 127.0.0.1.
type Authority struct {
	PEM         []byte // the certificate of the authority
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority returns an authority with a new key.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{}
	a.PEM, _ = a.Sign(t, "authority")
	return a
}

// Sign returns a new certificate with the given common name, and its key, in PEM. The first certificate is the
// authority's own.
func (a *Authority) Sign(t testing.TB, name string) (certificate, key []byte) {
	t.Helper()
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: a.key == nil, BasicConstraintsValid: true,
	}
	if a.key == nil {
		a.certificate, a.key = c, private
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, c, a.certificate, &private.PublicKey, a.key))(t)
	secret := must.Get(x509.MarshalPKCS8PrivateKey(private))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// Pair is Sign for a TLS connection.
func (a *Authority) Pair(t testing.TB, name string) tls.Certificate {
	t.Helper()
	return must.Get(tls.X509KeyPair(a.Sign(t, name)))(t)
}

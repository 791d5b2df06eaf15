package client

// This file holds the options of topics and object stores.

import (
	"blankout/app/served"
	"blankout/app/served/kafka"
	"blankout/app/served/s3"
	"blankout/internal/event"
	"blankout/stream"
)

// Kafka configures the connection to brokers. The zero value suits brokers without TLS and passwords.
type Kafka struct {
	TLS        bool
	CAFile     string // PEM file of the CA certificates for the brokers; "" uses the system's
	CertFile   string // PEM file of the client's certificate; needs KeyFile
	KeyFile    string
	ServerName string // expected name in the brokers' certificate; "" is the host of the address
	// Mechanism is the SASL mechanism: "" (none), "PLAIN", "SCRAM-SHA-256" or "SCRAM-SHA-512".
	Mechanism string
	Username  string
	// The password is read from PasswordFile, or if that is "" from the environment variable
	// BLANKOUT_KAFKA_PASSWORD.
	PasswordFile string
}

func (k Kafka) opener() served.Opener {
	c := stream.DefaultConnectConfig()
	c.TLS = stream.TLSConfig{Enabled: k.TLS, CAFile: k.CAFile, CertFile: k.CertFile, KeyFile: k.KeyFile, ServerName: k.ServerName}
	c.SASL.Mechanism, c.SASL.Username, c.SASL.PasswordFile = k.Mechanism, k.Username, k.PasswordFile
	return kafka.Opener(c)
}

// S3 configures access to an object store. The credentials are read from the environment, as by other S3 clients.
type S3 struct {
	Endpoint string // http:// or https:// and HOST[:PORT]; "" is Amazon S3
	Region   string // "" asks the object store for its region
	// Cache is a directory that keeps the newest model, so that a program can start while the store is unreachable. ""
	// disables the cache.
	Cache string
}

func (s S3) opener() served.Opener {
	c := s3.DefaultConfig()
	if s.Endpoint != "" {
		c.Endpoint = event.Address(s.Endpoint)
	}
	c.Region, c.Cache = s.Region, s.Cache
	return s3.Opener(c)
}

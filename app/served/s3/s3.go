// Package s3 distributes models through an object in an S3-compatible store. Its Publisher replaces the object. Package
// client reads and follows the object with the Opener of this package.
//
// The object is a whole model, in the format of a file (docs/checkpoint-format.md). A writer sends the entity tag of
// the object that it replaces, so that one of two concurrent writers is rejected. A reader sends the tag of the object
// that it already has, so that an unchanged model is not sent again. Readers and writers need a store with If-Match and
// If-None-Match, such as Amazon S3, MinIO, Ceph and Cloudflare R2.
package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"blankout/app/served"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/secret"
)

// Config is the section [s3] of the configuration. It never contains keys. The keys are read from AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY, from ~/.aws/credentials, or from the role of the machine or pod.
type Config struct {
	Endpoint event.Address `toml:"endpoint"` // http:// or https:// and HOST[:PORT]
	Region   string        `toml:"region"`   // "" asks the store for its region
	// Cache is a directory that keeps the newest model, so that a program can start while the store is unreachable. ""
	// disables the cache.
	Cache string `toml:"cache"`
}

// DefaultConfig returns the settings of an empty section.
func DefaultConfig() Config { return Config{Endpoint: "https://s3.amazonaws.com"} }

// Check returns the first error in the configuration, with its key.
func (c Config) Check() error {
	u, err := url.Parse(string(c.Endpoint))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return event.KeyErrorf("endpoint", "endpoint: %q, want https://HOST[:PORT]", c.Endpoint)
	}
	return nil
}

// CheckAddress returns an error if the address of an object is invalid.
func CheckAddress(where string) error {
	_, _, err := split(where)
	return err
}

// split returns the bucket and the key of s3://BUCKET/KEY.
func split(where string) (bucket, key string, err error) {
	rest, ok := strings.CutPrefix(where, "s3://")
	bucket, key, _ = strings.Cut(rest, "/")
	if !ok || bucket == "" || key == "" || strings.HasSuffix(key, "/") || strings.ContainsAny(where, "?#@") {
		return "", "", fmt.Errorf("%s: want s3://BUCKET/KEY", event.Address(where))
	}
	return bucket, key, nil
}

// object is one object in a store.
type object struct {
	where, bucket, key string
	store              minio.Core
}

func open(c Config, where string) (*object, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("s3: %w", err)
	}
	bucket, key, err := split(where)
	if err != nil {
		return nil, err
	}
	endpoint, err := url.Parse(string(c.Endpoint))
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // because models hardly compress
	store, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: secret.Client(nil)},
		}),
		Secure: endpoint.Scheme == "https", Region: c.Region, Transport: transport,
		MaxRetries: 2, // readers and writers retry by themselves
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return &object{where, bucket, key, *store}, nil
}

// read returns the object and its entity tag, or an error if it exceeds limit bytes. It returns no data if the tag is
// still before.
func (o *object) read(ctx context.Context, before string, limit int64) (data []byte, tag string, err error) {
	var options minio.GetObjectOptions
	if before != "" {
		if err := options.SetMatchETagExcept(before); err != nil {
			return nil, "", err
		}
	}
	body, info, _, err := o.store.GetObject(ctx, o.bucket, o.key, options)
	if status(err) == http.StatusNotModified {
		return nil, before, nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", o.where, err)
	}
	defer body.Close()
	if info.Size > limit {
		return nil, "", fmt.Errorf("%s: the model has more than %d bytes", o.where, limit)
	}
	if data, err = io.ReadAll(io.LimitReader(body, limit+1)); err != nil {
		return nil, "", fmt.Errorf("%s: %w", o.where, err)
	}
	if int64(len(data)) > limit {
		return nil, "", fmt.Errorf("%s: the model has more than %d bytes", o.where, limit)
	}
	return data, info.ETag, nil
}

// newest reads the object. If there is no object with that name, it reads the newest of the checkpoints below the name.
// at is the address of the object read.
func (o *object) newest(ctx context.Context, before string, limit int64) (at string, data []byte, tag string, err error) {
	data, tag, err = o.read(ctx, before, limit)
	if !missing(err) {
		return o.where, data, tag, err
	}
	behind := &Checkpoints{o}
	names, err2 := behind.List()
	if err2 != nil {
		return o.where, nil, "", errors.Join(err, err2)
	}
	if names = checkpoint.Sort(names); len(names) == 0 {
		return o.where, nil, "", err
	}
	newest := behind.object(names[0])
	data, tag, err = newest.read(ctx, before, limit)
	return newest.where, data, tag, err
}

// Read returns the bytes of the object at s3://BUCKET/KEY, and its address. If there is no such object, it returns the
// newest checkpoint below the address.
func Read(ctx context.Context, c Config, where string) (data []byte, at string, err error) {
	o, err := open(c, where)
	if err != nil {
		return nil, "", err
	}
	at, data, _, err = o.newest(ctx, "", maxBytes)
	return data, at, err
}

// status returns the HTTP status of the store's response, or 0 for any other error.
func status(err error) int {
	if answer, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return answer.StatusCode
	}
	return 0
}

// Opener returns the opener of s3://BUCKET/KEY for served.Open and served.Follow: served.Options{Schemes:
// map[string]served.Opener{"s3": s3.Opener(c)}}.
func Opener(c Config) served.Opener {
	return func(where string, o served.Options) (served.Source, error) {
		object, err := open(c, where)
		if err != nil {
			return nil, err
		}
		s := &source{object: object, options: o}
		if c.Cache != "" {
			if err := os.MkdirAll(c.Cache, 0o777); err != nil {
				return nil, fmt.Errorf("s3: cache: %w", err)
			}
			name := sha256.Sum256([]byte(string(c.Endpoint) + "\n" + where))
			s.cache = filepath.Join(c.Cache, hex.EncodeToString(name[:8])+".blankout")
		}
		return s, nil
	}
}

// source is the Source of an object that contains a model.
type source struct {
	*object
	options served.Options
	tag     string // entity tag of the last returned model, "" for none
	cache   string // file with the newest model read, "" for none
	cached  bool   // set if the last returned model came from the cache
}

func (s *source) Close() error { return nil }

func (s *source) Look(ctx context.Context) (*served.Model, error) {
	at, data, tag, err := s.newest(ctx, s.tag, s.options.MaxBytes)
	if err != nil {
		return s.fallBack(ctx, err)
	}
	if data == nil {
		return nil, nil
	}
	m, err := served.Options{Record: s.options.Record}.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	s.tag = tag
	if s.cache != "" {
		if err := m.WriteFile(s.cache); err != nil {
			s.options.Log.Warn("the model could not be kept for a start without the store", "file", s.cache, "err", err)
		}
	}
	m.ForceMissing(s.options.Missing) // not that of the file
	return m, nil
}

// fallBack returns the cached model if no model has been returned yet and the store is unreachable. The store is
// unreachable if it did not respond or responded with an internal error.
func (s *source) fallBack(ctx context.Context, err error) (*served.Model, error) {
	if code := status(err); s.cache == "" || s.tag != "" || s.cached || code != 0 && code < 500 || ctx.Err() != nil {
		return nil, err
	}
	data, err2 := os.ReadFile(s.cache)
	if err2 != nil {
		return nil, err // nothing is cached yet; return the store's error
	}
	m, err2 := s.options.Decode(data)
	if err2 != nil {
		return nil, errors.Join(err, fmt.Errorf("%s: %w", s.cache, err2))
	}
	s.cached = true
	s.options.Log.Warn("the store is out of reach: the model is the newest that was read before", "file", s.cache, "version", m.Version, "err", err)
	return m, nil
}

// Publisher writes Models to an object. Only one Publisher may write to an object. A Publisher belongs to one goroutine
// and starts no goroutines.
type Publisher struct {
	*object
	tag     string // entity tag of the current object, "" for none
	version uint64
	// unsure has the bytes of the model of the latest failed Publish. The object may or may not contain these bytes.
	unsure []byte
}

// TakenError reports that another program has written the object.
type TakenError struct{ Where string }

func (e *TakenError) Error() string {
	return e.Where + " was replaced by another writer: give each learner its own object"
}

// maxBytes is the largest object that a Publisher reads, or writes in one request.
const maxBytes = 5 << 30

// NewPublisher reads the object, if it exists.
func NewPublisher(ctx context.Context, c Config, where string) (*Publisher, error) {
	object, err := open(c, where)
	if err != nil {
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	p := &Publisher{object: object}
	data, tag, err := p.read(ctx, "", maxBytes)
	switch {
	case missing(err):
		return p, nil
	case err != nil:
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	m, err := served.Decode(data)
	if err != nil { // also for unknown contents, which must not be replaced
		return nil, fmt.Errorf("snapshots: %s: %w", where, err)
	}
	p.tag, p.version = tag, m.Version
	return p, nil
}

// Version returns the version of the model in the object, or 0 if the object has no model.
func (p *Publisher) Version() uint64 { return p.version }

// Publish replaces the object by a model, and returns once the model is stored. If Publish returns an error, the object
// contains either the previous model or this model, and Publish may be called again. After another program has written
// the object, every call returns a *TakenError.
func (p *Publisher) Publish(ctx context.Context, m *served.Model) error {
	var data bytes.Buffer
	if err := m.Encode(&data); err != nil {
		return fmt.Errorf("snapshots: %w", err)
	}
	for {
		info, err := p.put(ctx, data.Bytes(), p.tag)
		if err == nil {
			p.tag, p.version, p.unsure = info.ETag, m.Version, nil
			return nil
		}
		if code := status(err); code != http.StatusPreconditionFailed && code != http.StatusConflict {
			p.unsure = data.Bytes()
			return fmt.Errorf("snapshots: %s: %w", p.where, err)
		}
		// Either another program has written the object, or this Publisher has written it and the response was lost.
		there, tag, err := p.read(ctx, "", maxBytes)
		switch {
		case err != nil:
			return fmt.Errorf("snapshots: %w", err)
		case bytes.Equal(there, data.Bytes()):
			p.tag, p.version, p.unsure = tag, m.Version, nil
			return nil
		case p.unsure == nil || !bytes.Equal(there, p.unsure):
			return fmt.Errorf("snapshots: %w", &TakenError{p.where})
		}
		p.tag, p.unsure = tag, nil
	}
}

// put writes the object if its current entity tag is before; "" means that the object does not exist.
func (o *object) put(ctx context.Context, data []byte, before string) (minio.UploadInfo, error) {
	options := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true}
	if before == "" {
		options.SetMatchETagExcept("*")
	} else {
		options.SetMatchETag(before)
	}
	return o.store.Client.PutObject(ctx, o.bucket, o.key, bytes.NewReader(data), int64(len(data)), options)
}

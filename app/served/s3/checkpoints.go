package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"blankout/checkpoint"
)

// Checkpoints are the objects at s3://BUCKET/PREFIX in which a learner stores its checkpoints. They implement
// checkpoint.Objects.
type Checkpoints struct{ at *object }

// OpenCheckpoints returns the Checkpoints at an address. It sends no request.
func OpenCheckpoints(c Config, where string) (*Checkpoints, error) {
	at, err := open(c, where)
	if err != nil {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	return &Checkpoints{at}, nil
}

// patience limits a request, so that a store that does not respond cannot block a learner forever.
const patience = 5 * time.Minute

// Where returns the address s3://BUCKET/PREFIX.
func (c *Checkpoints) Where() string { return c.at.where }

// object returns the object with the given name below the prefix.
func (c *Checkpoints) object(name string) *object {
	o := *c.at
	o.where, o.key = o.where+"/"+name, o.key+"/"+name
	return &o
}

// List returns the sorted names of the objects, up to the next slash.
func (c *Checkpoints) List() (names []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	prefix := c.at.key + "/"
	for o := range c.at.store.Client.ListObjectsIter(ctx, c.at.bucket, minio.ListObjectsOptions{Prefix: prefix}) {
		if o.Err != nil {
			return nil, fmt.Errorf("%s: %w", c.at.where, o.Err)
		}
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(o.Key, prefix), "/"))
	}
	slices.Sort(names)
	return names, nil
}

// Read returns an object and its entity tag. The error is fs.ErrNotExist if the object does not exist.
func (c *Checkpoints) Read(name string) (data []byte, tag string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	data, tag, err = c.object(name).read(ctx, "", maxBytes)
	if missing(err) {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return data, tag, err
}

// Write writes an object if its current entity tag is before; "" means that the object does not exist. Otherwise it
// returns checkpoint.ErrTaken. If the object already contains exactly data, it returns nil, because the response to an
// earlier attempt was lost.
func (c *Checkpoints) Write(name string, data []byte, before string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	o := c.object(name)
	_, err := o.put(ctx, data, before)
	if code := status(err); code != http.StatusPreconditionFailed && code != http.StatusConflict {
		return wrap(o.where, err)
	}
	there, _, err2 := o.read(ctx, "", maxBytes)
	if err2 != nil {
		return errors.Join(wrap(o.where, err), err2)
	}
	if !bytes.Equal(there, data) {
		return fmt.Errorf("%s: %w", o.where, checkpoint.ErrTaken)
	}
	return nil
}

// Remove deletes an object.
func (c *Checkpoints) Remove(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	o := c.object(name)
	return wrap(o.where, o.store.Client.RemoveObject(ctx, o.bucket, o.key, minio.RemoveObjectOptions{}))
}

func wrap(where string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", where, err)
	}
	return err
}

// missing reports whether an error means that the object does not exist.
func missing(err error) bool {
	answer, is := errors.AsType[minio.ErrorResponse](err)
	return is && answer.StatusCode == http.StatusNotFound && answer.Code == minio.NoSuchKey
}

// Package s3test provides an S3-compatible store in the test process.
package s3test

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Store has objects in the bucket models. It checks version 4 signatures and supports conditional reads and writes, as
// Amazon's API reference defines them.
type Store struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string][]byte // objects by /BUCKET/KEY
	calls   []string          // each call as METHOD STATUS
	lost    int
	broken  bool
}

// The credentials and the region with which requests must be signed.
const (
	AccessKey = "AKIDEXAMPLE"
	SecretKey = "wJalrXUtnFEMI/K7MDENG"
	Region    = "eu-west-1"
)

// Start returns a Store that listens on loopback until Close.
func Start() *Store {
	s := &Store{objects: map[string][]byte{}}
	s.Server = httptest.NewServer(s)
	return s
}

// Put stores an object at a path; nil deletes it.
func (s *Store) Put(path string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[path] = data; data == nil {
		delete(s.objects, path)
	}
}

// Get returns an object, or nil if the object does not exist.
func (s *Store) Get(path string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[path]
}

// Names returns, for each object path that begins with path, the rest of the object path. It omits a rest that contains
// a slash. The names are sorted.
func (s *Store) Names(path string) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.objects {
		if rest, ok := strings.CutPrefix(name, path); ok && !strings.Contains(rest, "/") {
			names = append(names, rest)
		}
	}
	slices.Sort(names)
	return names
}

// Lose makes the next writes succeed, although their responses report a failure. writes is the number of these writes.
func (s *Store) Lose(writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = writes
}

// Break makes every response 503 if broken is set, else it restores normal responses.
func (s *Store) Break(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = broken
}

func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	code := s.answer(w, r)
	s.calls = append(s.calls, fmt.Sprint(r.Method, " ", code))
}

// Take returns the requests since the previous Take, as in calls.
func (s *Store) Take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := strings.Join(s.calls, ", ")
	s.calls = nil
	return calls
}

func (s *Store) answer(w http.ResponseWriter, r *http.Request) int {
	refuse := func(status int, code string) int {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
		return status
	}
	if s.broken {
		return refuse(http.StatusServiceUnavailable, "ServiceUnavailable")
	}
	if !signed(r) {
		return refuse(http.StatusForbidden, "SignatureDoesNotMatch")
	}
	there, ok := s.objects[r.URL.Path]
	if !strings.HasPrefix(r.URL.Path, "/models/") {
		return refuse(http.StatusNotFound, "NoSuchBucket")
	}
	if r.Method == http.MethodGet && r.URL.Path == "/models/" {
		return s.list(w, r)
	}
	match, none := unquote(r.Header.Get("If-Match")), unquote(r.Header.Get("If-None-Match"))
	switch {
	case r.Method == http.MethodGet && !ok:
		return refuse(http.StatusNotFound, "NoSuchKey")
	case r.Method == http.MethodGet && none == tagOf(there):
		w.WriteHeader(http.StatusNotModified)
		return http.StatusNotModified
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", strconv.Quote(tagOf(there)))
		w.Header().Set("Last-Modified", "Wed, 12 Oct 2009 17:50:00 GMT")
		w.Header().Set("Content-Length", strconv.Itoa(len(there)))
		_, _ = w.Write(there)
		return http.StatusOK
	case r.Method == http.MethodDelete:
		delete(s.objects, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
		return http.StatusNoContent
	case r.Method == http.MethodPut && (none == "*" && ok || match != "" && (!ok || match != tagOf(there))):
		return refuse(http.StatusPreconditionFailed, "PreconditionFailed")
	case r.Method == http.MethodPut:
		data, err := unchunk(r)
		if err != nil {
			return refuse(http.StatusBadRequest, "IncompleteBody")
		}
		s.objects[r.URL.Path] = data
		if s.lost > 0 {
			s.lost--
			return refuse(http.StatusInternalServerError, "InternalError")
		}
		w.Header().Set("ETag", strconv.Quote(tagOf(data)))
		return http.StatusOK
	}
	return refuse(http.StatusMethodNotAllowed, "MethodNotAllowed")
}

// list handles ListObjectsV2, two names per response.
func (s *Store) list(w http.ResponseWriter, r *http.Request) int {
	query := r.URL.Query()
	prefix, delimiter, after := query.Get("prefix"), query.Get("delimiter"), query.Get("continuation-token")
	var names []string
	for path := range s.objects {
		name := strings.TrimPrefix(path, "/models/")
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		if dir, _, within := strings.Cut(rest, delimiter); within && delimiter != "" {
			name = prefix + dir + delimiter
		}
		if name > after && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	more := len(names) > 2
	names = names[:min(len(names), 2)]
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprintf(w, "<ListBucketResult><Name>models</Name><Prefix>%s</Prefix><KeyCount>%d</KeyCount><IsTruncated>%v</IsTruncated>", prefix, len(names), more)
	for _, name := range names {
		if strings.HasSuffix(name, "/") {
			fmt.Fprintf(w, "<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>", name)
		} else {
			data := s.objects["/models/"+name]
			fmt.Fprintf(w, "<Contents><Key>%s</Key><LastModified>2009-10-12T17:50:00.000Z</LastModified><ETag>%q</ETag><Size>%d</Size></Contents>", name, tagOf(data), len(data))
		}
	}
	if more {
		fmt.Fprintf(w, "<NextContinuationToken>%s</NextContinuationToken>", names[len(names)-1])
	}
	fmt.Fprint(w, "</ListBucketResult>")
	return http.StatusOK
}

func unquote(tag string) string { return strings.Trim(tag, `"`) }

func tagOf(data []byte) string { return fmt.Sprintf("%x", md5.Sum(data)) }

// unchunk returns the body of a write, which may be sent in signed chunks.
func unchunk(r *http.Request) ([]byte, error) {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return io.ReadAll(r.Body)
	}
	var out bytes.Buffer
	in := bufio.NewReader(r.Body)
	for {
		head, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		size, _, _ := strings.Cut(strings.TrimSpace(head), ";")
		n, err := strconv.ParseInt(size, 16, 64)
		if err != nil {
			return nil, err
		}
		if n == 0 { // ignore trailers
			_, err := io.Copy(io.Discard, in)
			return out.Bytes(), err
		}
		if _, err := io.CopyN(&out, in, n); err != nil {
			return nil, err
		}
		if _, err := in.Discard(2); err != nil {
			return nil, err
		}
	}
}

// signed reports whether a request is signed with the secret key (AWS Signature Version 4).
func signed(r *http.Request) bool {
	fields := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 "), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		fields[name] = value
	}
	scope, ok := strings.CutPrefix(fields["Credential"], AccessKey+"/")
	parts := strings.Split(scope, "/")
	if !ok || len(parts) != 4 || parts[1] != Region {
		return false
	}
	var canonical strings.Builder
	fmt.Fprintf(&canonical, "%s\n%s\n%s\n", r.Method, r.URL.EscapedPath(), r.URL.Query().Encode())
	for name := range strings.SplitSeq(fields["SignedHeaders"], ";") {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = strconv.FormatInt(r.ContentLength, 10)
		}
		fmt.Fprintf(&canonical, "%s:%s\n", name, strings.TrimSpace(value))
	}
	fmt.Fprintf(&canonical, "\n%s\n%s", fields["SignedHeaders"], r.Header.Get("X-Amz-Content-Sha256"))
	hash := sha256.Sum256([]byte(canonical.String()))
	key := []byte("AWS4" + SecretKey)
	for _, part := range append(parts, fmt.Sprintf("AWS4-HMAC-SHA256\n%s\n%s\n%x", r.Header.Get("X-Amz-Date"), scope, hash)) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	return hex.EncodeToString(key) == fields["Signature"]
}

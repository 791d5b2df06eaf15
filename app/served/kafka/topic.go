// Package kafka distributes models through a snapshot topic. Its Publisher writes the models. Package client reads and
// follows the models with the Opener of this package.
package kafka

// A snapshot topic holds the newest model in one partition of a compacted topic. A model is the blocks of a file
// (docs/checkpoint-format.md), cut into pieces that fit a message:
//
//	key                  value
//	piece/HASH           a piece of a block; HASH is the first half of its SHA-256 in hex
//	manifest             the SHA-256, in hex, of the rest; a newline; JSON of manifest
//
// The topic of a group has a model for each shard. The key of its manifest is the shard, and its pieces have the shard and
// the number of its publisher's start:
//
//	shard-K                        manifest
//	shard-K/piece/START/HASH       piece
//
// So a publisher that has lost its shard without knowing deletes no piece of its successor.
//
// A piece is named by the hash of its content. So a piece that has not changed since the previous model is not written
// again, and no piece is ever overwritten. The manifest is written after the pieces. Then the pieces that the new
// manifest does not name are deleted. So a reader that reads to the end finds the newest complete model, even if
// publications were interrupted.

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"blankout/app/served"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/failpoint"
	"blankout/stream"
	"blankout/stream/record"
)

const (
	keyManifest = "manifest"
	keyPiece    = "piece/"
	// maxPiece is the default size limit of a piece. Brokers reject messages of more than 1 MB by default.
	maxPiece = 900_000
)

// manifest lists the pieces of a model.
type manifest struct {
	Format    int             `json:"format"` // format version, 1
	Version   uint64          `json:"version"`
	Published time.Time       `json:"published"`
	Kind      checkpoint.Kind `json:"kind"`
	Blocks    []manifestBlock `json:"blocks"`
	Prefix    string          `json:"prefix,omitempty"` // START/ of a shard's pieces
}

type manifestBlock struct {
	Name   string   `json:"name"`
	Bytes  int      `json:"bytes"`
	Pieces []string `json:"pieces"` // hashes of the pieces
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

func (m *manifest) encode() ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return append(append([]byte(hex.EncodeToString(sum[:])), '\n'), text...), nil
}

func decodeManifest(value []byte) (*manifest, error) {
	head, text, ok := strings.Cut(string(value), "\n")
	if sum := sha256.Sum256([]byte(text)); !ok || head != hex.EncodeToString(sum[:]) {
		return nil, fmt.Errorf("%w: the manifest's checksum does not match", checkpoint.ErrDamaged)
	}
	m := &manifest{}
	if err := json.Unmarshal([]byte(text), m); err != nil {
		return nil, fmt.Errorf("%w: the manifest: %w", checkpoint.ErrDamaged, err)
	}
	if m.Format > 1 {
		return nil, fmt.Errorf("%w: snapshot format %d, this program reads up to 1", checkpoint.ErrNewer, m.Format)
	}
	return m, nil
}

// contents is the content of a snapshot topic up to an offset, for one model.
type contents struct {
	pieces   map[string][]byte // pieces by the key after keyPiece; nil data if the content is not needed
	manifest *manifest         // newest manifest, nil if there is none
	offset   int64             // offset of the manifest
	bytes    int64             // total size of the pieces
	strange  uint64            // number of unknown records
	broken   error             // why the newest model cannot be read; nil if it can
	brokenAt int64             // offset of its manifest
}

// shardKey returns the shard that a record belongs to, and its key within the shard. Without a shard, shard is "".
func shardKey(key []byte) (shard, rest string) {
	rest = string(key)
	if !strings.HasPrefix(rest, event.ShardPrefix) {
		return "", rest
	}
	if shard, rest, _ = strings.Cut(rest, "/"); rest == "" {
		rest = keyManifest
	}
	return shard, rest
}

// add adds a record, given its key within a shard. It returns an error for an invalid manifest; the previous manifest
// stays valid. A manifest with a smaller version is from a publisher that has lost its shard, and is ignored.
func (c *contents) add(r record.Record, key string, keep bool) error {
	if hash, ok := strings.CutPrefix(key, keyPiece); ok {
		c.bytes -= int64(len(c.pieces[hash]))
		if r.Value == nil {
			delete(c.pieces, hash)
			return nil
		}
		if hashOf(r.Value) != path.Base(hash) {
			c.strange++ // the hash does not match the name: ignore the piece
			delete(c.pieces, hash)
			return nil
		}
		var data []byte
		if keep {
			data = append([]byte(nil), r.Value...)
		}
		c.pieces[hash] = data
		c.bytes += int64(len(data))
		return nil
	}
	if key != keyManifest || r.Value == nil {
		c.strange++
		return nil
	}
	m, err := decodeManifest(r.Value)
	if err != nil {
		c.broken, c.brokenAt = fmt.Errorf("offset %d: %w", r.Offset, err), r.Offset
		return c.broken
	}
	if m.Prefix != "" && c.manifest != nil && c.manifest.Version > m.Version {
		return nil
	}
	c.manifest, c.offset, c.broken = m, r.Offset, nil
	return nil
}

// assemble builds the newest model. It fails if the model exceeds MaxBytes, because a manifest can repeat a piece many
// times.
func (c *contents) assemble(o served.Options) (*served.Model, error) {
	limit := o.MaxBytes
	f := &checkpoint.File{Kind: c.manifest.Kind}
	prefix := c.manifest.Prefix
	for _, b := range c.manifest.Blocks {
		var data []byte
		for _, hash := range b.Pieces {
			piece, ok := c.pieces[prefix+hash]
			if limit -= int64(len(piece)); limit < 0 {
				return nil, fmt.Errorf("%w: version %d: the manifest makes more of the pieces than a model may have bytes", checkpoint.ErrDamaged, c.manifest.Version)
			}
			if !ok {
				return nil, fmt.Errorf("version %d: block %s: piece %s is missing", c.manifest.Version, b.Name, hash)
			}
			data = append(data, piece...)
		}
		if len(data) != b.Bytes {
			return nil, fmt.Errorf("%w: version %d: block %s has %d bytes, the manifest says %d", checkpoint.ErrDamaged, c.manifest.Version, b.Name, len(data), b.Bytes)
		}
		f.Blocks = append(f.Blocks, event.Block{Name: b.Name, Data: data})
	}
	return o.FromFile(f)
}

// readTopicConfig returns the settings for reading a snapshot topic from its beginning.
func readTopicConfig(c stream.ConnectConfig, topic string, log *slog.Logger) stream.ConsumerConfig {
	config := stream.DefaultConsumerConfig()
	config.ConnectConfig, config.Topics, config.Partitions, config.Log = c, []string{topic}, []int32{0}, log
	config.OutOfRange = "earliest" // compaction may move the start of the log beyond our position
	config.MaxWait = 100 * time.Millisecond
	return config
}

// Opener returns the opener of kafka://HOST:PORT/TOPIC for served.Open and served.Follow: served.Options{Schemes:
// map[string]served.Opener{"kafka": kafka.Opener(c)}}. The brokers in an address take precedence over the brokers in
// the ConnectConfig.
func Opener(c stream.ConnectConfig) served.Opener {
	return func(where string, o served.Options) (served.Source, error) {
		brokers, topic, _ := strings.Cut(strings.TrimPrefix(where, "kafka://"), "/")
		if topic == "" || strings.ContainsAny(topic, "/?#") {
			return nil, fmt.Errorf("%s: want kafka://HOST:PORT/TOPIC", event.Address(where))
		}
		connect := c
		if brokers != "" {
			connect.Brokers = strings.Split(brokers, ",")
		}
		return &topicSource{topic: topic, connect: connect, options: o}, nil
	}
}

// ErrEmpty is the error of Look for a topic to which nothing was published.
var ErrEmpty = errors.New("contains no complete snapshot yet")

// topicSource is the Source of a snapshot topic.
type topicSource struct {
	topic   string
	connect stream.ConnectConfig
	options served.Options

	reader   *stream.Reader
	contents map[string]*contents     // by shard; "" is the model of a topic without shards
	models   map[string]*served.Model // the shards' models, by shard
	returned map[string]int64         // offset of the last returned manifest of each shard
	told     map[string]int64         // offset of the last reported damaged manifest of each shard
	ready    *served.Model            // assembled, but not returned yet
	end      int64                    // end offset of the log
	next     int64
}

func (s *topicSource) Close() error {
	if s.reader == nil {
		return nil
	}
	return s.reader.Close()
}

// Look reads to the end of the topic. If Look has not reached the end before, it waits for records until it has. Later
// calls return immediately at the end of the topic.
func (s *topicSource) Look(ctx context.Context) (*served.Model, error) {
	if s.reader == nil {
		r, err := stream.NewReader(ctx, readTopicConfig(s.connect, s.topic, nil), nil)
		if err != nil {
			return nil, err
		}
		s.reader = r
		s.forget()
		s.next, s.end = 0, 1
	}
	for quiet := false; ; {
		if s.next >= s.end {
			model, err := s.assemble()
			if quiet { // no further records will complete a model
				s.tell()
			}
			if model != nil {
				s.ready = model
			}
			if ready := s.ready; ready != nil && (quiet || !s.untold()) {
				s.ready = nil
				return ready, nil
			} else if ready != nil {
				// Wait: a further record may complete the damaged shard.
			} else if err != nil {
				if quiet {
					return nil, fmt.Errorf("topic %s: %w", s.topic, err)
				}
			} else if quiet && len(s.returned) == 0 {
				return nil, fmt.Errorf("topic %s %w", s.topic, ErrEmpty)
			} else if failing := s.failing(); quiet && failing != "" {
				return nil, errors.New(failing)
			} else if quiet {
				return nil, nil
			}
		}
		wait, cancel := context.WithTimeout(ctx, s.patience())
		b, err := s.reader.Next(wait)
		cancel()
		if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			if quiet = s.next >= s.end; quiet {
				continue
			}
			if failing := s.failing(); failing != "" {
				return nil, errors.New(failing)
			}
			continue // the records are still being fetched
		}
		if err != nil {
			return nil, s.fail(err)
		}
		quiet = false
		if s.next, s.end = b.Next, b.HighWater; b.Reset { // the reader restarts at the start of the log, perhaps of a recreated topic
			s.forget()
		}
		bytes, broken := int64(0), error(nil)
		for _, r := range b.Records {
			shard, key := shardKey(r.Key)
			c := s.contents[shard]
			if c == nil {
				c = &contents{pieces: map[string][]byte{}}
				s.contents[shard] = c
			}
			if err := c.add(r, key, true); err != nil && shard == "" {
				broken = err
			}
		}
		if broken != nil {
			return nil, fmt.Errorf("topic %s: %w", s.topic, broken)
		}
		for _, c := range s.contents {
			bytes += c.bytes
		}
		if len(b.Refused) > 0 {
			return nil, fmt.Errorf("topic %s: offset %d: %w", s.topic, b.Refused[0].Offset, b.Refused[0].Refused)
		}
		if bytes > s.options.MaxBytes {
			return nil, fmt.Errorf("topic %s: the snapshot has more than %d bytes", s.topic, s.options.MaxBytes)
		}
	}
}

// forget forgets what was read of the topic.
func (s *topicSource) forget() {
	s.contents, s.models, s.returned, s.told = map[string]*contents{}, map[string]*served.Model{}, map[string]int64{}, map[string]int64{}
	s.ready = nil
}

// untold reports whether tell would report a damaged shard.
func (s *topicSource) untold() bool {
	for shard, c := range s.contents {
		if at, told := s.told[shard]; shard != "" && c.broken != nil && (!told || at != c.brokenAt) {
			return true
		}
	}
	return false
}

// tell reports each shard whose newest model cannot be read. The log has one message until the shard is whole again.
func (s *topicSource) tell() {
	for _, shard := range slices.Sorted(maps.Keys(s.contents)) {
		c := s.contents[shard]
		at, told := s.told[shard]
		switch {
		case shard == "":
		case c.broken == nil && told:
			delete(s.told, shard)
			s.options.Log.Info("a shard's snapshot can be read again", "topic", s.topic, "shard", shard)
		case c.broken != nil && (!told || at != c.brokenAt):
			if s.told[shard] = c.brokenAt; !told {
				s.options.Log.Warn("a shard's newest snapshot cannot be read: answers use its older one, or the other shards", "topic", s.topic, "shard", shard, "older", s.models[shard] != nil, "err", c.broken)
			}
			if s.options.Damaged != nil {
				s.options.Damaged(event.ShardNumber(shard), c.broken)
			}
		}
	}
}

// assemble returns the newest model, or the set of the newest models of all shards. It returns nil if Look has returned
// it, or nothing was published. An error says that no model is complete. A shard whose newest model is not complete keeps
// its older one.
func (s *topicSource) assemble() (*served.Model, error) {
	newer := false
	for shard, c := range s.contents {
		if at, ok := s.returned[shard]; c.manifest == nil || ok && at == c.offset {
			continue
		}
		m, err := c.assemble(s.options)
		if err == nil && shard != "" && (m.Shard == nil || event.ShardName(m.Shard.Number) != shard) {
			err = fmt.Errorf("%w: %s has a model that is not of this shard", checkpoint.ErrDamaged, shard)
		}
		if err != nil {
			c.broken, c.brokenAt = err, c.offset
			continue
		}
		s.models[shard], s.returned[shard], newer = m, c.offset, true
	}
	switch one := s.models[""]; {
	case !newer:
		return nil, s.incomplete()
	case one != nil:
		return one, nil
	}
	var shards []*served.Model
	for _, m := range s.models {
		if n := m.Shard.Shards; shards == nil {
			shards = make([]*served.Model, n)
		} else if len(shards) != n {
			return nil, fmt.Errorf("%w: there are shards of %d and of %d", checkpoint.ErrDamaged, len(shards), n)
		}
		shards[m.Shard.Number] = m
	}
	return served.NewSet(shards), nil
}

// incomplete returns why there is no whole model, or why the model of a topic without shards is not the newest.
func (s *topicSource) incomplete() error {
	for _, shard := range slices.Sorted(maps.Keys(s.contents)) {
		if c := s.contents[shard]; c.broken != nil && (shard == "" || len(s.models) == 0) {
			return c.broken
		}
	}
	return nil
}

// patience returns how long Look waits for records at the end of the topic.
func (s *topicSource) patience() time.Duration {
	if len(s.returned) == 0 {
		return 500 * time.Millisecond
	}
	return min(s.options.Interval, 200*time.Millisecond)
}

func (s *topicSource) failing() string {
	source := s.reader.Stats()
	return source.Failing()
}

// fail discards a reader whose stream has ended. The next Look creates a new reader.
func (s *topicSource) fail(err error) error {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		s.reader.Close()
		s.reader = nil
	}
	return fmt.Errorf("topic %s: %w", s.topic, err)
}

// Publisher writes Models to a snapshot topic, or the Models of a shard to the topic of a group. Only one Publisher may
// write to a topic without shards. A Publisher belongs to one goroutine and starts no goroutines.
type Publisher struct {
	shard    string // "" without shards
	prefix   string // begins the keys of its pieces after keyPiece
	producer *stream.Producer
	timeout  time.Duration // time limit of the request for the topic ID
	maxPiece int
	live     map[string]bool // pieces that the topic contains, by the key after keyPiece
	topicID  string          // ID of the topic that contains the live pieces
	version  uint64
	wrote    uint64
}

// PublisherConfig configures where snapshots are published.
type PublisherConfig struct {
	stream.ConnectConfig
	Topic  string
	Create bool   // create the topic, with compaction, if it does not exist
	Shard  string // shard-K, in the topic of a group
	Start  uint64 // number of the shard's start, larger than those of earlier publishers of the shard
	// MaxPiece is the largest size of a message in bytes. 0 means 900,000.
	MaxPiece int
	Log      *slog.Logger
}

// NewPublisher connects to the brokers and reads the content of the topic.
func NewPublisher(ctx context.Context, c PublisherConfig) (*Publisher, error) {
	config := stream.DefaultProducerConfig()
	c.MaxPiece = cmp.Or(c.MaxPiece, maxPiece)
	config.ConnectConfig, config.Topic, config.Log, config.BatchBytes = c.ConnectConfig, c.Topic, c.Log, c.MaxPiece
	config.CreateTopics, config.TopicSettings = c.Create, []string{"cleanup.policy=compact"}
	producer, err := stream.NewProducer(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	p := &Publisher{producer: producer, timeout: c.RequestTimeout, maxPiece: c.MaxPiece, live: map[string]bool{}, shard: c.Shard}
	if c.Shard != "" {
		p.prefix = fmt.Sprintf("%d/", c.Start)
	}
	if err := p.read(ctx, c); err != nil {
		p.Close()
		return nil, fmt.Errorf("snapshots: topic %s: %w", c.Topic, err)
	}
	return p, nil
}

func (p *Publisher) read(ctx context.Context, c PublisherConfig) error {
	config := readTopicConfig(c.ConnectConfig, c.Topic, c.Log)
	config.UntilEnd = true
	r, err := stream.NewReader(ctx, config, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	if p.topicID, err = p.producer.TopicID(ctx); err != nil {
		return err
	}
	there := contents{pieces: map[string][]byte{}}
	for {
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for _, r := range b.Records {
			shard, key := shardKey(r.Key)
			if shard != p.shard && shard != "" && p.shard != "" {
				continue
			}
			if shard != p.shard {
				there.strange++
				continue
			}
			// Ignore an invalid manifest, because the next manifest replaces it.
			if err := there.add(r, key, false); errors.Is(err, checkpoint.ErrNewer) {
				return err
			}
		}
	}
	if there.strange > 0 && there.manifest == nil {
		return fmt.Errorf("it contains %d records that are not snapshots: give snapshots their own topic", there.strange)
	}
	for hash := range there.pieces {
		p.live[hash] = true
	}
	if there.manifest != nil {
		p.version = there.manifest.Version
	}
	return nil
}

// Version returns the version of the newest model in the topic, or 0 if the topic has no model.
func (p *Publisher) Version() uint64 { return p.version }

// Written returns the bytes of all pieces written by the Publisher.
func (p *Publisher) Written() uint64 { return p.wrote }

// Publish writes the pieces of a model that the topic does not contain, and returns once they are acknowledged. If
// Publish returns an error, the newest model in the topic is either the previous model or this model. Publish may be
// called again.
func (p *Publisher) Publish(ctx context.Context, m *served.Model) error {
	kind, blocks, err := m.Blocks()
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, p.timeout) // the caller's other destinations must not wait for unreachable brokers
	defer cancel()
	if id, err := p.producer.TopicID(asking); err != nil {
		return fmt.Errorf("snapshots: %w", err)
	} else if id != p.topicID {
		p.topicID, p.live = id, map[string]bool{} // the topic was recreated, so it is empty
	}
	list := manifest{Format: 1, Version: m.Version, Published: m.At, Kind: kind, Prefix: p.prefix}
	used := map[string]bool{}
	for b := range blocks {
		entry := manifestBlock{Name: b.Name, Bytes: len(b.Data), Pieces: []string{}}
		for rest := b.Data; len(rest) > 0; {
			piece := rest[:min(len(rest), p.maxPiece)]
			rest = rest[len(piece):]
			hash := hashOf(piece)
			entry.Pieces = append(entry.Pieces, hash)
			hash = p.prefix + hash
			used[hash] = true
			if p.live[hash] {
				continue
			}
			if err := p.write(ctx, "snapshot.piece", stream.Message{Key: p.key(keyPiece + hash), Value: piece}); err != nil {
				return err
			}
			p.live[hash] = true
			p.wrote += uint64(len(piece))
		}
		list.Blocks = append(list.Blocks, entry)
	}
	value, err := list.encode()
	if err != nil {
		return fmt.Errorf("snapshots: %w", err)
	}
	if err := p.write(ctx, "snapshot.manifest", stream.Message{Key: p.key(keyManifest), Value: value}); err != nil {
		return err
	}
	if err := p.producer.Flush(ctx); err != nil {
		return fmt.Errorf("snapshots: %w", err)
	}
	p.version = m.Version
	for hash := range p.live {
		if used[hash] {
			continue
		}
		if err := p.write(ctx, "snapshot.prune", stream.Message{Key: p.key(keyPiece + hash)}); err != nil {
			return err
		}
		delete(p.live, hash)
	}
	if err := p.producer.Flush(ctx); err != nil {
		return fmt.Errorf("snapshots: %w", err)
	}
	return nil
}

// key returns the key of a record.
func (p *Publisher) key(rest string) []byte {
	switch {
	case p.shard == "":
		return []byte(rest)
	case rest == keyManifest:
		return []byte(p.shard)
	}
	return []byte(p.shard + "/" + rest)
}

// write writes a record. place is the failpoint for crash tests.
func (p *Publisher) write(ctx context.Context, place string, m stream.Message) error {
	err := failpoint.Here(place)
	if err == nil {
		err = p.producer.WriteTo(ctx, 0, m)
	}
	if err != nil {
		return fmt.Errorf("snapshots: %w", err)
	}
	return nil
}

// Close closes the connections.
func (p *Publisher) Close() error { return p.producer.Close() }

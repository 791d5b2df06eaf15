package main

// This file opens the log or topic of events that arrive over HTTP.

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"

	"blankout/config"
	"blankout/internal/event"
	"blankout/online"
	"blankout/serve"
	"blankout/stream"
	"blankout/stream/inbox"
)

// learnsInbox reports whether all events arrive over HTTP.
func learnsInbox(c *config.Config, data string) bool {
	return c.HTTP.Learn && data == "" && len(c.Kafka.Topics) == 0
}

// checkInbox returns an error if events over HTTP cannot be accepted.
func checkInbox(c *config.Config, o *runFlags) error {
	switch {
	case !c.HTTP.Learn:
		return nil
	case o.predict:
		return errors.New("http.learn: --predict-only learns nothing")
	case o.data != "":
		return errors.New("http.learn: a run with -d learns only that file: remove -d or http.learn")
	case c.Group.Name != "" && len(c.Kafka.Topics) == 0:
		return errors.New("http.learn: a group divides the partitions of a topic: set kafka.topics, to which events over HTTP are then written")
	case c.HTTP.Address == "":
		return errors.New("http.learn: set http.address, where events arrive")
	case learnsInbox(c, o.data) && c.Checkpoint.Objects():
		return errors.New("http.learn: events are stored next to the checkpoints, which must then be on disk: set kafka.topics, or a local checkpoint.directory")
	case learnsInbox(c, o.data) && len(c.Labels.Topics) > 0:
		return errors.New("http.learn: delayed labels need events in a topic: set kafka.topics")
	}
	return nil
}

// openInbox opens the log of events over HTTP, in the directory of the checkpoints, and makes it the source.
func (s *service) openInbox(c *config.Config, reset bool, acceptor *atomic.Pointer[serve.Acceptor], log *slog.Logger) error {
	o := inbox.Options{Log: log}
	if p, ok := s.runner.Offsets.Lookup(inbox.Topic, 0); ok && !reset {
		o.Learned = p.Next
	}
	l, err := inbox.Open(filepath.Join(string(c.Checkpoint.Directory), "inbox"), o)
	if err != nil {
		return err
	}
	s.close = append(s.close, l.Close)
	from := s.runner.Offsets
	if reset {
		from = event.Offsets{{Topic: inbox.Topic, Next: l.First(), First: l.First()}}
		s.runner.Offsets = slices.Clone(from)
	}
	source, err := inbox.NewSource(l, c.Record, s.runner.Schema, from)
	if err != nil {
		return err
	}
	s.close = append(s.close, source.Close)
	s.runner.Source = source
	var saved []int64 // positions in the log of the checkpoints that this run has stored
	s.runner.Commit = func(_ context.Context, offsets event.Offsets) error {
		p, _ := offsets.Lookup(inbox.Topic, 0)
		if saved = append(saved, p.Next); len(saved) < c.Checkpoint.Keep {
			return nil // older checkpoints may still need earlier events
		}
		saved = saved[len(saved)-c.Checkpoint.Keep:]
		return l.Passed(saved[0])
	}
	taken, err := inbox.NewLogAcceptor(l, c.Record, acceptedSchema(c))
	if err != nil {
		return err
	}
	acceptor.Store(new(serve.Acceptor(taken)))
	return nil
}

// openTopicAcceptor makes the server send events that arrive over HTTP to the first topic.
func (s *service) openTopicAcceptor(c *config.Config, acceptor *atomic.Pointer[serve.Acceptor], log *slog.Logger) error {
	labels := ""
	if len(c.Labels.Topics) > 0 {
		labels = c.Labels.Topics[0]
	}
	taken, err := inbox.NewTopicAcceptor(c.Record, c.Labels.LabelRecord(c.Record), func() *event.Schema { return acceptedSchema(c) }, c.Kafka.Topics[0], labels, func(ctx context.Context, topic string) (*stream.Producer, error) {
		p := stream.DefaultProducerConfig()
		p.ConnectConfig, p.Topic, p.Log = c.Kafka.ConnectConfig, topic, log
		return stream.NewProducer(ctx, p)
	})
	if err != nil {
		return err
	}
	s.close = append(s.close, taken.Close)
	acceptor.Store(new(serve.Acceptor(taken)))
	return nil
}

// acceptedSchema returns the Schema with which events are checked before they are accepted. It allows as many classes
// as the learner's Schema.
func acceptedSchema(c *config.Config) *event.Schema {
	s := c.Record.Schema()
	if len(c.Record.Classes) == 0 {
		online.TakeMoreClasses(s)
	}
	return s
}

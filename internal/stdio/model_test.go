package stdio

import (
	"context"
	"io"
	"testing"
)

// TestModelIgnoresLabels checks that an opened model predicts events whatever is in their label field, because it does
// not learn.
func TestModelIgnoresLabels(t *testing.T) {
	for _, settings := range [][]string{{}, {"learner.loss=squared"}} {
		s := newStream(100)
		c := start(t)
		c.must(opNew, 0, 7, 0, settings)
		c.must(opShape, 0, 7, 0, s.names)
		if len(settings) == 0 {
			c.must(opClasses, 0, 7, 0, s.classes)
		}
		c.must(opRows, flagLearn|flagLabels, 7, len(s.rows), s.labels, uint64(0), s.flat())
		c.must(opModel, 0, 8, 0, c.must(opExport, 0, 7, 0, map[string]string{"format": "model"}))
		want := c.must(opLines, 0, 8, 1, `{"a":1,"b":2}`+"\n")
		for _, label := range []string{`"never seen"`, `""`, `null`} {
			if got := c.must(opLines, 0, 8, 1, `{"a":1,"b":2,"label":`+label+"}\n"); string(got) != string(want) {
				t.Errorf("%v: the label %s changes the prediction", settings, label)
			}
		}
	}
}

// TestManyPredictionsPublish checks that a learner publishes its model for a request of many predictions, which are then
// faster, and not for fewer.
func TestManyPredictionsPublish(t *testing.T) {
	in, write := io.Pipe()
	read, out := io.Pipe()
	server, ended := New("test"), make(chan error)
	go func() { ended <- server.Serve(context.Background(), in, out) }()
	c := &client{t: t, in: write, out: read}
	s := newStream(publishFor)
	c.must(opNew, 0, 7, 0, []string{})
	c.must(opShape, 0, 7, 0, s.names)
	c.must(opClasses, 0, 7, 0, s.classes)
	c.must(opRows, flagLearn|flagLabels, 7, len(s.rows), s.labels, uint64(0), s.flat())
	c.must(opRows, 0, 7, publishFor-1, uint64(0), s.flat()[:3*(publishFor-1)])
	if server.learners[7].model != nil {
		t.Errorf("%d predictions publish a model", publishFor-1)
	}
	c.must(opRows, 0, 7, publishFor, uint64(0), s.flat())
	if server.learners[7].model == nil {
		t.Errorf("%d predictions do not publish a model", publishFor)
	}
	write.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

package online

// This file clones a Learner.

import (
	"encoding/json"
	"fmt"

	"blankout/internal/model"
)

// Clone returns a Learner with the same state. It shares only the Schema with l.
func (l *Learner) Clone() (*Learner, error) {
	t := model.NewTable(l.encoder.Table.Width())
	for slot := range l.encoder.Table.Len() {
		column, row := l.encoder.Table.Column(slot)
		copy(t.Touch(column), row)
	}
	n, err := l.withState(l.bare(), t)
	if err != nil {
		return nil, fmt.Errorf("copying a learner: %w", err)
	}
	n.monitors.ReuseStale(l.monitors)
	return n, nil
}

// bare is a saved state without rows: the blocks "learner" and "refused", and the parts of the model that Restore
// needs.
type bare struct {
	bareHead
	learner    []byte
	refused    []byte
	covariance *model.Covariance
}

type bareHead struct {
	Scaler  model.Scaler
	Missing *model.Missing
	Doubt   *model.Doubt
}

func (l *Learner) bare() *bare {
	return &bare{bareHead{l.encoder.Scaling.Scaler, l.encoder.Fields.Missing, l.doubted}, l.encode(), l.encodeRefused(), l.predictor.imputer.Covariance()}
}

// withState returns a Learner with the given state and rows, and with the settings and Schema of l.
func (l *Learner) withState(b *bare, t *model.Table) (*Learner, error) {
	text, err := json.Marshal(b.bareHead)
	if err != nil {
		return nil, err
	}
	apart := bare{learner: b.learner, refused: b.refused, covariance: b.covariance} // a copy, because both learners write to it
	if err := json.Unmarshal(text, &apart.bareHead); err != nil {
		return nil, err
	}
	return restored(l.config, l.set, l.encoder.Schema(), &apart, t)
}

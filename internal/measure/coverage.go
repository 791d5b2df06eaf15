package measure

// Coverage is the coverage of prediction sets or intervals in a range of missing fields.
type Coverage struct {
	Range  string  `json:"missing"` // fraction of missing fields, see model.RangeName
	Events float64 `json:"events"`  // number of sets, including masked copies
	// Coverage is the fraction of sets that contained the label, Recent that of the latest, and Size their mean size: a
	// number of classes, or the length of an interval.
	Coverage float64 `json:"coverage"`
	Recent   float64 `json:"recent"`
	Size     float64 `json:"size"`
}

// ClassCoverage is the coverage of the sets of one class's events.
type ClassCoverage struct {
	Class string `json:"class"`
	// Events is the number of sets of events that are not masked copies, Coverage the fraction of them that contained
	// the class, and Recent that of the latest.
	Events   float64 `json:"events"`
	Coverage float64 `json:"coverage"`
	Recent   float64 `json:"recent"`
	// ByMissing is the same by range of missing fields, including masked copies. Sizes are not measured.
	ByMissing []RangeCoverage `json:"by_missing"`
}

// RangeCoverage is the coverage of one class in a range of missing fields.
type RangeCoverage struct {
	Range    string  `json:"missing"` // see model.RangeName
	Events   float64 `json:"events"`
	Coverage float64 `json:"coverage"`
	Recent   float64 `json:"recent"`
}

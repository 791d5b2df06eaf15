package measure

// Coverage is the coverage of prediction sets or intervals for one range of the missing fraction.
type Coverage struct {
	Range  string  `json:"missing"` // range of the fraction of missing fields, see model.RangeName
	Events float64 `json:"events"`  // number of sets, including masked copies
	// Coverage is the fraction of sets that contained the label, and Recent is this fraction for the latest sets. Size
	// is the mean size of the sets: the number of classes, or the length of an interval.
	Coverage float64 `json:"coverage"`
	Recent   float64 `json:"recent"`
	Size     float64 `json:"size"`
}

// ClassCoverage is the coverage of prediction sets for the events of one class.
type ClassCoverage struct {
	Class string `json:"class"`
	// Events is the number of sets of events that are not masked copies. Coverage is the fraction of these sets that
	// contained the class, and Recent is this fraction for the latest sets.
	Events   float64 `json:"events"`
	Coverage float64 `json:"coverage"`
	Recent   float64 `json:"recent"`
	// ByMissing is the coverage by range of the missing fraction, including masked copies. Sizes are not measured.
	ByMissing []RangeCoverage `json:"by_missing"`
}

// RangeCoverage is the coverage of one class for one range of the missing fraction.
type RangeCoverage struct {
	Range    string  `json:"missing"` // see model.RangeName
	Events   float64 `json:"events"`
	Coverage float64 `json:"coverage"`
	Recent   float64 `json:"recent"`
}

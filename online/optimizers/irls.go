package optimizers

import "blankout/online/rows"

// irls is the optimizer that leaves all learning to the refresh.
type irls struct{ plain }

func newIRLS(c Settings) Optimizer { return &irls{plain{c}} }

func (*irls) Step(*rows.Step) {}

func (r *irls) Unlabeled(s *rows.Step) { r.Gather(s) }

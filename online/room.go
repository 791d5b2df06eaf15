package online

// This file refuses events for which there is no room in memory.

import (
	"fmt"
	"strconv"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/memory"
	"blankout/online/watch"
)

// Refusal says why the Learner will not learn an event that its decoder has not refused: a class or columns that
// come with it would make its rows larger than Config.MaxMemory. It is nil where it will. Nothing is refused for
// columns and classes that are there, nor among several learners of one model. Learn counts such an event as refused.
func (l *Learner) Refusal(e *event.Example) *event.Refusal {
	bound := memory.Bound(l.config.MaxMemory)
	if bound == 0 || e.Refused != nil || e.Weight == 0 || l.share != nil {
		return nil
	}
	width := l.table.Width()
	if outputs, _, _ := l.outputsAfter(e); outputs != l.k {
		if width = l.width(outputs); outputs > l.k && !bound.Fits(l.table.Len(), width) {
			return l.noRoom("class "+quoted(l.schema.Classes[e.Label]), l.table.Len(), width)
		}
	}
	i, n := bound.First(l.table, e.Features.Index, width)
	if i < 0 {
		return nil
	}
	return l.noRoom(l.nameFeature(e, i), n, width)
}

// noRoom returns the refusal of what would make so many rows of so many numbers.
func (l *Learner) noRoom(what string, rows, width int) *event.Refusal {
	return &event.Refusal{Reason: event.ReasonMemory, Detail: fmt.Sprintf("%s: %d rows of %d numbers are %d bytes; raise learner.max_memory = %d",
		what, rows, width, memory.Bytes(rows, width), l.config.MaxMemory)}
}

// nameFeature names the feature of an entry of an event, and its field. A name is looked for among all names, which takes
// its time: for the first refusal alone, which is the one that is shown.
func (l *Learner) nameFeature(e *event.Example, i int) string {
	column := e.Features.Index[i]
	var name string
	switch {
	case l.watch.Refused.By[event.ReasonMemory].Count == 0 || l.schema.NumericIndices && l.schema.Names.Len() == 0:
		name = (&model.Head{Schema: l.schema, Scaler: l.scaling.Scaler}).Namer()(column)
	default:
		name = "#" + strconv.FormatUint(uint64(column), 10)
	}
	what := "feature " + quoted(name)
	if e.Field != nil && l.schema.Fields[e.Field[i]].Name != "" {
		what = "field " + quoted(l.schema.Fields[e.Field[i]].Name) + ", " + what
	}
	return what
}

// quoted returns a name as a message that is cut shows it.
func quoted(name string) string {
	const most = 40
	if len(name) > most {
		name = watch.FirstBytes(name, most)
	}
	return strconv.Quote(name)
}

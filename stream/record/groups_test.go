package record

import (
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
)

// TestGroups checks that groups are read from a file or the configuration, for fields or for columns. A feature must be
// in at most one group.
func TestGroups(t *testing.T) {
	groups, err := ReadGroups(strings.NewReader("# sensors\nfront 1-8,17\n\nengine rpm  oil # and\n"))
	must.True(t, err == nil && len(groups) == 2 && strings.Join(groups["front"], " ") == "1-8 17" && strings.Join(groups["engine"], " ") == "rpm oil", "read %q, %v", groups, err)
	c := DefaultConfig()
	c.Groups = groups
	must.Do(t, c.Check())
	s := c.Schema()
	spans, _ := s.ColumnGroups.Find("front")
	must.True(t, len(spans) == 2 && spans[1] == (event.Span{From: 16, To: 17}) && len(s.ColumnGroups.Named) == 1, "columns %v", s.ColumnGroups)
	s.AddField(event.Field{Name: "rpm", Kind: event.Numeric})
	c.Regroup(s)
	must.Equal(t, s.Fields[1].Group, "engine", "the group of rpm")
	c = DefaultConfig()
	s = c.Schema()
	must.True(t, s.ColumnGroups == nil, "no groups asked for, but %v", s.ColumnGroups)
	c.GroupEvery = 8
	s = c.Schema()
	must.True(t, s.ColumnGroups != nil && s.ColumnGroups.Every == 8, "columns %v", s.ColumnGroups)

	for text, want := range map[string]string{"": "no group", "front": "no members", "a 1\na 2\n": "twice"} {
		must.ErrorContains(t, must.Err(ReadGroups(strings.NewReader(text))), want, text)
	}
	for want, groups := range map[string]map[string][]string{
		`"rpm" is in "a" and in "b"`: {"a": {"rpm"}, "b": {"rpm"}},
		`"a" and "b" share a column`: {"a": {"1-8"}, "b": {"8-9"}},
		`"a" and "a" share a column`: {"a": {"1-8", "3"}},
		"the name \"\": want 1 to":   {"": {"x"}},
	} {
		c := DefaultConfig()
		c.Groups = groups
		must.ErrorContains(t, c.Check(), want, groups)
	}
}

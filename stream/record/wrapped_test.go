package record

import (
	"testing"

	"blankout/internal/must"
)

// TestWrapped checks which JSON objects are lists of events in the form of another service, and that an event with a list
// of objects in a field of such a name is an event.
func TestWrapped(t *testing.T) {
	for value, want := range map[string]string{
		`{"instances":[{"x":1}]}`:                                        "instances",
		`{ "instances" : [ [1,2] ] }`:                                    "instances",
		"{\n \"parameters\": {},\n \"instances\": [\n {\"x\": 1}\n ]\n}": "instances",
		`{"signature_name":"serving_default","instances":[{"x":1}]}`:     "instances",
		`{"dataframe_split":{"columns":["x"],"data":[[1]]}}`:             "dataframe_split.data",
		`{"dataframe_split":{"data":[[1]],"columns":["x"]},"params":{}}`: "dataframe_split.data",
		`{"dataframe_records":[{"x":1}]}`:                                "dataframe_records",
		`{"data":[{"x":1},{"x":2}]}`:                                     "data",
		`{"data":[[1,2]]}`:                                               "data",
		`{"label":"a","instances":[{"x":1}]}`:                            "",
		`{"id":7,"inputs":[{"value":1},{"value":2}]}`:                    "",
		`{"x":1,"data":[{"y":2}]}`:                                       "",
		`{"data":["a","b"]}`:                                             "",
		`{"instances":["a","b"]}`:                                        "",
		`{"instances":3}`:                                                "",
		`{"words":["instances","[{"],"x":1}`:                             "",
		`{"x":1}`:                                                        "",
		`{"instances":[{"x":1}`:                                          "",
		``:                                                               "",
	} {
		must.Equal(t, wrapped([]byte(value), "label"), want, value)
	}
}

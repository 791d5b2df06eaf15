package record

import (
	"blankout/internal/event"
	"blankout/internal/must"
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
)

// benchRecords has one record of every format. The JSON record has 200 bytes.
var benchRecords = map[string]string{
	"json":     `{"label":1,"age":39,"hours_per_week":40,"capital_gain":2174.5,"workclass":"State-gov","education":"Bachelors","marital":"Never-married","sex":"Male","country":"United-States","night":false,"score":0.73}`,
	"svmlight": "-1 3:1 11:1 14:0.25 19:1 39:1.5 42:1 55:1 64:1 67:-3.25 73:1 75:1 76:1 80:12 83:1 1024:0.4391 20311:1",
	"vw":       "1 'ad17|user age:39 night country=de |words the quick brown fox jumps over the lazy dog |n a:0.25 b:1.5",
	"csv":      `1,39,40,2174.5,State-gov,Bachelors,Never-married,Male,"United-States",false,0.73`,
}

func benchDecoder(t testing.TB, format string) Decoder {
	c := DefaultConfig()
	c.Format = format
	if format == "csv" {
		c.Columns = strings.Split("label,age,hours,gain,work,education,marital,sex,country,night,score", ",")
	}
	if c.HasSchemas() {
		c.Registry = wireConfig(t, format, sr.Schema{Schema: benchSchemas["avro"], Type: sr.TypeAvro}, sr.Schema{Schema: benchSchemas["protobuf"], Type: sr.TypeProtobuf}).Registry
	}
	return must.Get(NewDecoder(c, c.Schema()))(t)
}

// benchSchemas has the schemas of the JSON record.
var benchSchemas = map[string]string{
	"avro": `{"type":"record","name":"Person","fields":[{"name":"label","type":"int"},{"name":"age","type":"double"},{"name":"hours_per_week","type":"int"},
		{"name":"capital_gain","type":["null","double"]},{"name":"workclass","type":"string"},{"name":"education","type":"string"},{"name":"marital","type":["null","string"]},
		{"name":"sex","type":{"type":"enum","name":"Sex","symbols":["Female","Male"]}},{"name":"country","type":"string"},{"name":"night","type":"boolean"},{"name":"score","type":"double"}]}`,
	"protobuf": `syntax = "proto3"; message Person { int32 label = 1; double age = 2; int32 hours_per_week = 3; optional double capital_gain = 4; string workclass = 5;
		string education = 6; optional string marital = 7; string sex = 8; string country = 9; bool night = 10; double score = 11; }`,
	"json-schema": `{}`,
}

// benchRecord returns the record of the given format.
func benchRecord(t testing.TB, format string) []byte {
	if text, ok := benchRecords[format]; ok {
		return []byte(text)
	}
	name := map[string]string{"avro": "s.avsc", "protobuf": "s.proto", "json-schema": "s.json"}[format]
	encoder := must.Get(NewEncoder(name, benchSchemas[format]))(t)
	value := must.Get(encoder.Encode(map[string]uint32{"avro": 1, "protobuf": 2}[format], []byte(benchRecords["json"])))(t)
	return value
}

func BenchmarkDecode(b *testing.B) {
	for _, f := range formats {
		b.Run(f.name, func(b *testing.B) {
			d := benchDecoder(b, f.name)
			r := Record{Value: benchRecord(b, f.name)}
			var e event.Example
			b.SetBytes(int64(len(r.Value)))
			b.ReportAllocs()
			for b.Loop() {
				d.Decode(context.Background(), r, &e)
			}
			must.Require(b, e.Refused == nil, "%v", e.Refused)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(e.Features.Len()), "ns/feature")
		})
	}
}

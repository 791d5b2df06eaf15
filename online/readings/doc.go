// Package readings answers one question for each reading of an event: is it information, or the trace of something that is
// lost? A reading can be lost for these reasons:
//   - The field is null or absent although most events have it ([Fields]).
//   - The field has stopped changing ([Detector]).
//   - The reading is a placeholder such as -999 ([Placeholders]).
//   - The reading is a value that has begun to repeat, or it contradicts the other readings of its event ([Doubter]).
//
// What is learned here is published in a model, as [blankout/internal/model.Missing], [blankout/internal/model.Faults] and
// [blankout/internal/model.Doubt], so that learning, predictions, forecasts and simulations decide alike. The package has
// no model weights.
package readings

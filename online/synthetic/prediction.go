package synthetic

// Long is a value for Prediction.Learned. It is larger than the number of learned events in any test.
const Long = 1 << 50

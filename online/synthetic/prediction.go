package synthetic

// Long is a value for Prediction.Learned that is larger than any number of learned events in a test.
const Long = 1 << 50

package synthetic

// Long is the Learned of a Prediction that was made when other events had been learned.
const Long = 1 << 50

"""Many experiments an hour: what search, matrices, regressions and repeats are made of."""

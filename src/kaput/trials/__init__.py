"""Plays many experiments an hour, for searches, matrices, regressions and repeats."""

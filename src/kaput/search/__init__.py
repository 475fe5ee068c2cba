"""The search for experiments that lose messages: spaces of experiments, drawing them, and finds."""

"""Evidence as runs: what a run is, how rows become runs, and how runs are laid over each other."""

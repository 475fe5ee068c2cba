"""The nemesis: one file per fault, targets separate from faults, and the catalogue of all faults."""

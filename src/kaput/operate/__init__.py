"""Operating a cluster: running, breaking, checking and repairing one. Used by cli, and by other programs."""

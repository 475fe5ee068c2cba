"""What an operator does to a cluster: keep one, break it, mend it. Used by cli, and by other programs."""

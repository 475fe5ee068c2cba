"""WHAT happened: the run folder (kaput.evidence/1), its recorder and its readers, and the findings model."""

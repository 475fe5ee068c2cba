"""Evidence: the run folder (kaput.evidence/1), its recorder and readers, and the findings model."""

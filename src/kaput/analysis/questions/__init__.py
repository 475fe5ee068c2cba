"""What is asked of the evidence: one file a question, with its definition, from frames of runs to cases."""

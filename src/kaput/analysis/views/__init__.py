"""What a task holds of the evidence, with everything that several questions want worked out once."""

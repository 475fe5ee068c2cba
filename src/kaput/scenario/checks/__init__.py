"""What must agree between the keys and blocks of a scenario: every mistake, with its path."""

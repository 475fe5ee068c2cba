"""Consistency checks between blocks of a scenario: they find every mistake, with its path."""

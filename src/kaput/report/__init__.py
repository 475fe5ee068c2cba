"""Findings made readable: terminal text, JUnit XML. Renders what the analysis and the verdict said."""

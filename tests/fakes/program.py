"""The program with all its verbs, for tests that call it in their own process."""

from __future__ import annotations

from kaput.cli.main import program

app = program()

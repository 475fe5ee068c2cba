"""Parses options that are durations."""

from __future__ import annotations


def milliseconds(option: str, text: str) -> int:
    """Parses `10m`, `250ms` and so on. Raises UsageError with the name of the option."""
    from kaput.errors import UsageError
    from kaput.scenario.values import parse_duration_ms

    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from None

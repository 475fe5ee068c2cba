"""Formats of numbers: thousands separators, decimals, units."""

from __future__ import annotations

NOTHING = "-"


def number(value: float | None) -> str:
    """1234567 -> `1,234,567`; small numbers keep some decimals; None -> `-`."""
    if value is None:
        return NOTHING
    if isinstance(value, int) or abs(value) >= 100 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def milliseconds(value: float | None) -> str:
    """`9,480 ms`, or `-`."""
    return NOTHING if value is None else f"{number(value)} ms"


def percent(share: float | None) -> str:
    """0.1068 -> `10.7 %`, or `-`."""
    return NOTHING if share is None else f"{share * 100:.1f} %"

"""How figures and tables look in text: thousands separators, ms, aligned columns that nothing wraps."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kaput.printable import printable

NOTHING = "-"
_STYLES = {"held": "bold green", "violated": "bold red", "inconclusive": "bold yellow"}


def number(value: float | None) -> str:
    """1234567 -> `1,234,567`; small fractions keep what says something; None -> `-`."""
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


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 message`, `2,000 messages`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def verdict_style(verdict: str) -> str:
    """The rich style of a verdict."""
    return _STYLES.get(verdict, "bold")


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> Text:
    """An aligned table, a line a row; the first `left` columns are flush left, the others flush right."""
    lines = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in lines) for i in range(len(header))]
    text = Text()
    for index, row in enumerate(lines):
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        text.append(("  " + "  ".join(cells)).rstrip() + "\n", style="dim" if index == 0 else "")
    return text

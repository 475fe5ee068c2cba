"""The summary of an alert: a template with `{label}` and `{value}`, nothing else.

`{value}` is formatted as a number, `{value:percent}` as a percentage of a ratio, `{value:duration}` as a
duration in seconds. The same templates are converted to Prometheus's. Not str.format: a template must not
reach into objects.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping

_FIELD = re.compile(r"\{([a-z_]+)(?::(percent|duration))?\}")
_GO_FUNCTIONS = {"": "humanize", "percent": "humanizePercentage", "duration": "humanizeDuration"}


def unknown_fields(template: str, known: Collection[str]) -> list[str]:
    """Fields in braces that are not known, or are malformed."""
    named = [match[1] for match in _FIELD.finditer(template)]
    odd = re.findall(r"\{([^{}]*)\}?", _FIELD.sub("", template))
    return [*(name for name in named if name not in known), *odd]


def filled(template: str, labels: Mapping[str, str], value: float) -> str:
    """The sentence. A label that the alert does not have is shown as `?`."""
    return _FIELD.sub(
        lambda match: _value(value, match[2] or "") if match[1] == "value" else labels.get(match[1], "?"),
        template,
    )


def as_go_template(template: str) -> str:
    """The template for Prometheus's annotations."""

    def field(match: re.Match[str]) -> str:
        if match[1] != "value":
            return f"{{{{ $labels.{match[1]} }}}}"
        return f"{{{{ $value | {_GO_FUNCTIONS[match[2] or '']} }}}}"

    return _FIELD.sub(field, template)


def _value(value: float, how: str) -> str:
    if math.isnan(value):
        return "an unknown number"
    if how == "percent":
        return f"{value * 100:.3g} %"
    return duration(value) if how == "duration" else number(value)


def number(value: float) -> str:
    """1,234, 0.125, 12.3: at most three decimals, without insignificant ones."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def duration(seconds: float) -> str:
    """12.5 s, 14 min, 3 h, 12 days."""
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"

"""A file of alert rules: the rules, and what must agree between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field

from kaput.core import MS
from kaput.monitor.alerts.rule import Inhibitor, Rule
from kaput.scenario.block import Block, Found
from kaput.scenario.nearest import hint
from kaput.scenario.values import DurationMs


class Rules(Block):
    """All rules that are evaluated together."""

    stale_after: DurationMs = 30_000
    """How old a sample may be and still count as current."""
    forget_after: DurationMs = 300_000
    """How long a label set may be without samples, while others of its signal have some, until it is gone."""
    alert_rules: Annotated[list[Rule], Field(min_length=1, alias="rules")]
    """The rules; their order does not matter."""

    def __iter__(self) -> Iterator[Rule]:  # type: ignore[override]
        """The rules in order."""
        return iter(self.alert_rules)

    @property
    def stale_ns(self) -> int:
        """`stale-after` in ns."""
        return self.stale_after * MS

    @property
    def forget_ns(self) -> int:
        """`forget-after` in ns."""
        return self.forget_after * MS

    @property
    def by_name(self) -> Mapping[str, Rule]:
        """The rules by name."""
        return {rule.name: rule for rule in self}

    def rules(self) -> Found:
        """Mistakes that involve several rules."""
        first: dict[str, int] = {}
        for at, rule in enumerate(self):
            if rule.name in first:
                yield ("rules", at, "name"), f"{rule.name} is also the name of another rule"
            first.setdefault(rule.name, at)
        for at, rule in enumerate(self):
            for place, inhibitor in enumerate(rule.unless):
                for key, text in self._inhibition(rule, inhibitor):
                    yield ("rules", at, "unless", place, *key), text

    def _inhibition(self, rule: Rule, inhibitor: Inhibitor) -> Found:
        other = self.by_name.get(inhibitor.rule)
        if other is None:
            yield ("rule",), f"no rule {inhibitor.rule}; {hint(inhibitor.rule, self.by_name)}"
            return
        for label in inhibitor.equal:
            for each in (rule, other):
                if label not in each.labels:
                    have = f"they have {', '.join(each.labels)}" if each.labels else "they have none"
                    yield ("equal",), f"alerts of {each.name} have no label {label}; {have}"
        if rule.name in self._explaining_rules(inhibitor.rule):
            yield ("rule",), f"{rule.name} and {inhibitor.rule} inhibit each other: both would be silent"

    def _explaining_rules(self, name: str) -> set[str]:
        """The rules that explain that one, directly or through others; itself included."""
        pending, found = [name], set()
        while pending:
            name = pending.pop()
            if name not in found and name in self.by_name:
                found.add(name)
                pending += [each.rule for each in self.by_name[name].unless]
        return found

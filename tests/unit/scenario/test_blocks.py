"""The rules of blocks: what is wrong within one, found wherever it is in the file."""

from __future__ import annotations

from kaput.scenario.block import Block, Found
from kaput.scenario.cluster import release_of


class _Inner(Block):
    first_one: int = 0

    def rules(self) -> Found:
        if self.first_one:
            yield ("first-one",), f"{self.first_one} is too much"


class _Outer(Block):
    alone: _Inner = _Inner()
    in_a_list: list[_Inner] = []  # noqa: RUF012
    by_name: dict[str, _Inner] = {}  # noqa: RUF012

    def rules(self) -> Found:
        if not self.in_a_list:
            yield (), "the list is empty"


def test_nested_rule_violations_are_reported_with_their_yaml_path() -> None:
    """In the block itself, a block in it, a list and a mapping of blocks; nothing where nothing is wrong."""
    wrong = {"first-one": 3}
    outer = _Outer.model_validate({"alone": wrong, "in-a-list": [{}, wrong], "by-name": {"x": wrong}})
    text = "3 is too much"
    assert list(outer.broken_rules(("top",))) == [
        (("top", "alone", "first-one"), text),
        (("top", "in-a-list", 1, "first-one"), text),
        (("top", "by-name", "x", "first-one"), text),
    ]
    assert list(_Outer().broken_rules(("top",))) == [(("top",), "the list is empty")]


def test_unparsable_version_sorts_after_every_release() -> None:
    """A wrong version is reported once, not also as too old."""
    assert release_of("3.9.2") == (3, 9) < release_of("4.0.0") < release_of("trunk")

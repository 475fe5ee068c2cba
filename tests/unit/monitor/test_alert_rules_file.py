"""Files of alert rules: every mistake with its line, its rule and its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaput.errors import UsageError
from kaput.monitor.alerts.rules import from_text, load

GOOD = """\
rules:
  - name: lag
    signal: kaput_mirror_lag_seconds
    above: 10
    severity: page
    summary: "{mirror} is {value} behind"
    why: Because.
"""


def mistakes(text: str) -> list[str]:
    """What the loader says of it, line by line."""
    with pytest.raises(UsageError) as caught:
        from_text("my.yaml", text)
    return str(caught.value).splitlines()


def changed(old: str, new: str) -> list[str]:
    """What it says of the good file with a change."""
    assert old in GOOD
    return mistakes(GOOD.replace(old, new))


def test_valid_rules_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(GOOD, encoding="utf-8")
    (rule,) = load(path)
    assert (rule.name, rule.above, rule.severity, rule.labels) == ("lag", 10, "page", ("mirror",))


def test_all_errors_are_reported_with_line_rule_and_path() -> None:
    text = GOOD.replace("page", "wake").replace("above: 10", "above: soon\n    clera: 5")
    assert mistakes(text) == [
        "my.yaml:4: rule lag: above: 'soon' is not valid here; write a number",
        "my.yaml:5: rule lag: clera: no such key; did you mean clear?",
        "my.yaml:6: rule lag: severity: 'wake' is not valid here; write page or ticket",
    ]


def test_unnamed_rule_is_reported_by_number() -> None:
    assert changed("name: lag\n    ", "") == ["my.yaml:2: rule number 1: name: missing"]
    (mistake,) = changed("name: lag", r'name: "\x1e"')
    assert mistake.startswith("my.yaml:2: rule number 1: name: '\\x1e' is not a name")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("kaput_mirror_lag_seconds", "kaput_mirror_lag", "did you mean kaput_mirror_lag_seconds?"),
        ("kaput_mirror_lag_seconds", "kaput_produce_latency_seconds", "is a histogram"),
        ("above: 10", "for: 10s", "it has no condition"),
        ("above: 10", "above: 10\n    below: 2", "above and below do not go together"),
        ("above: 10", "above: yes", "true is not a number"),
        ("above: 10", "above: .inf", "finite"),
        ("above: 10", "above: 10\n    clear: 11", "worse than the threshold; write a value below 10"),
        ("above: 10", "below: 10\n    clear: 9", "worse than the threshold; write a value above 10"),
        ("above: 10", "other-than: 10\n    clear: 9", "other-than takes no clear"),
        ("above: 10", "absent: 10s\n    clear: 9", "absent takes no clear"),
        ("above: 10", "absent: 10s\n    rate: 9s", "absent takes no rate"),
        ("above: 10", "above: 10\n    increase: 9s", "increase is for counters"),
        ("above: 10", "above: 10\n    rate: 9s\n    increase: 9s", "rate and increase do not go together"),
        ("above: 10", "above: 10\n    for: soon", "'soon' is not a duration"),
        ("above: 10", "above: 10\n    by: [mirror]", "by goes with combine"),
        ("above: 10", "above: 10\n    combine: sum\n    by: [miror]", "did you mean mirror?"),
        ("above: 10", "above: 10\n    where: {topic: t}", "has no label topic; write mirror"),
        ("{mirror}", "{miror}", "{miror} is no label or value; did you mean mirror?"),
        ("{value}", "{value.real}", "{value.real} is no label or value"),
        ("{value}", "{value", "is no label or value"),
        ("name: lag", "name: Lag behind", "write small letters, digits and single dashes"),
        ("why: Because.", "why: Because.\n    unless: [{rule: log}]", "no rule log; did you mean lag?"),
        ("why: Because.", "why: Because.\n    unless: [{rule: lag}]", "both would be silent"),
        ("why: Because.", "why: Because.\n    why: Twice.", "given twice"),
    ],
)  # fmt: skip
def test_invalid_rule_is_rejected(old: str, new: str, words: str) -> None:
    assert any(words in line for line in changed(old, new)), changed(old, new)


def test_duplicate_names_and_circular_unless_are_rejected() -> None:
    other = GOOD.removeprefix("rules:\n")
    assert any("is also the name of another rule" in line for line in mistakes(GOOD + other))
    circle = (
        GOOD
        + "    unless: [{rule: b}]\n"
        + other.replace("name: lag", "name: b")
        + "    unless: [{rule: lag}]\n"
    )
    assert [line for line in mistakes(circle) if "both would be silent" in line]


def test_equal_labels_must_exist_on_both_rules() -> None:
    other = GOOD.removeprefix("rules:\n").replace("name: lag", "name: b")
    text = GOOD + "    unless: [{rule: b, equal: [broker]}]\n" + other
    assert mistakes(text) == [
        "my.yaml:8: rule lag: unless.0.equal: alerts of lag have no label broker; they have mirror",
        "my.yaml:8: rule lag: unless.0.equal: alerts of b have no label broker; they have mirror",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "my.yaml: empty; `kaput alerts show` prints a file of alert rules to start from"),
        (
            "- 1",
            "my.yaml:1: a file of alert rules is a mapping of keys to values; `kaput alerts show` prints one",
        ),
        ("rules: []", "my.yaml:1: rules: [] is not valid here; write a list with at least one entry"),
        ("rules: [1]", "my.yaml:1: rule number 1: 1 is not valid here; write a mapping of keys to values"),
        ("rules: {a: 1}", "my.yaml:1: rules: {'a': 1} is not valid here; write a list"),
        ("rulse: []", "my.yaml:1: rulse: no such key; did you mean rules?"),
        ("{", "my.yaml:1:2: not valid YAML"),
    ],
)
def test_malformed_rules_file_is_rejected(text: str, words: str) -> None:
    assert any(line.startswith(words) for line in mistakes(text)), mistakes(text)

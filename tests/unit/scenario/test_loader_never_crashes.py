"""Whatever is in a file, loading ends in a scenario or in a mistake with a sentence."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kaput.errors import EvidenceError, UsageError
from kaput.scenario.builtin import builtin_names, builtin_text
from kaput.scenario.loader import load_builtin, load_file, read_resolved

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.dates(),
    st.binary(max_size=4),
    st.sampled_from(["10s", "30%", "all", "max", "leader-of orders/0", "{message: 3}", "orders", ">0"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(SCALARS, inner, max_size=3)),
    max_leaves=5,
)
KEYS = st.one_of(
    SCALARS, st.sampled_from(["config", "brokers", "for", "acks", "later", "topic", "message", "messages"])
)
PARTS = [
    "workload",
    "producers",
    "topics",
    "faults",
    "cluster",
    "config",
    "acks",
    "kafka",
    "at",
    "0",
    "9",
    "-1",
    "é",
]


def places(node: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, value in entries for place in [(node, key), *places(value)]]


@given(
    name=st.sampled_from(builtin_names()),
    changes=st.lists(st.tuples(st.integers(0, 2**32), st.sampled_from(["set", "add", "del"]), KEYS, VALUES)),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mutated_builtin_loads_or_is_reported(tmp_path: Path, name: str, changes: list[Any]) -> None:
    """Values replaced, keys added and deleted at random places: never a traceback."""
    document = yaml.safe_load(builtin_text(name))
    for seed, action, key, value in changes:
        found = places(document)
        if not found:
            break
        container, at = random.Random(seed).choice(found)
        if action == "set":
            container[at] = value
        elif action == "del":
            del container[at]
        elif isinstance(container, dict):
            container[key] = value
    path = tmp_path / "fuzz.yaml"
    path.write_text(yaml.safe_dump(document))
    try:
        scenario = load_file(path)
    except UsageError as error:
        assert_reported(error, path)
    else:
        assert type(scenario).model_validate(scenario.dump()) == scenario
    try:
        read_resolved(path)
    except EvidenceError as error:
        assert_named(error, path)


def assert_reported(error: UsageError, path: Path) -> None:
    """Every line names the file and a line of it, unless it is about all of them, and says something."""
    last = path.read_text().count("\n") + 1
    for line in str(error).split("\n"):
        found = re.fullmatch(rf"{re.escape(str(path))}(:\d+)?(:\d+)?: (\S.*)", line)
        assert found is not None and 1 <= int((found[1] or ":1")[1:]) <= last, line


def assert_named(error: EvidenceError, path: Path) -> None:
    """The file, and what is wrong with it."""
    assert re.match(rf"{re.escape(str(path))}(:\d+){{0,2}}: \S", str(error)), str(error)


@given(text=st.text(alphabet=st.sampled_from("abc:-[]{}&*!|>'\"#%@,. \n\t01<=?~"), max_size=60))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arbitrary_text_is_rejected_without_traceback(tmp_path: Path, text: str) -> None:
    """Text that is mostly not YAML, and never a scenario, is refused by both readers."""
    path = tmp_path / "fuzz.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        load_file(path)
    assert_reported(refused.value, path)
    with pytest.raises(EvidenceError) as malformed:
        read_resolved(path)
    assert_named(malformed.value, path)


@given(
    place=st.lists(
        st.sampled_from(PARTS),
        max_size=5,
    ),
    value=st.text(max_size=10),
)
@settings(max_examples=60, deadline=None)
def test_arbitrary_override_loads_or_is_reported(place: list[str], value: str) -> None:
    """Paths and values at random: a scenario, or sentences that name the place."""
    override = f"{'.'.join(place)}={value}"
    try:
        scenario = load_builtin("noop", [override])
    except UsageError as error:
        assert str(error).strip() and ("--set" in str(error) or "noop.yaml" in str(error)), str(error)
    else:
        assert type(scenario).model_validate(scenario.dump()) == scenario

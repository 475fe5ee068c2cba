"""Whatever stands in a file, loading ends in a scenario or in a mistake with a sentence."""

from __future__ import annotations

import contextlib
import random
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
def test_any_change_to_a_built_in(tmp_path: Path, name: str, changes: list[Any]) -> None:
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
    with contextlib.suppress(UsageError):
        scenario = load_file(path)
        assert type(scenario).model_validate(scenario.dump()) == scenario
    with contextlib.suppress(EvidenceError):
        read_resolved(path)


@given(text=st.text(alphabet=st.sampled_from("abc:-[]{}&*!|>'\"#%@,. \n\t01<=?~"), max_size=60))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text(tmp_path: Path, text: str) -> None:
    """Text that is mostly not YAML, and never a scenario, is refused by both readers."""
    path = tmp_path / "fuzz.yaml"
    path.write_text(text)
    with pytest.raises(UsageError):
        load_file(path)
    with pytest.raises(EvidenceError):
        read_resolved(path)


@given(
    place=st.lists(
        st.sampled_from(PARTS),
        max_size=5,
    ),
    value=st.text(max_size=10),
)
@settings(max_examples=60, deadline=None)
def test_any_override(place: list[str], value: str) -> None:
    """Paths and values at random: a scenario or sentences."""
    with contextlib.suppress(UsageError):
        load_builtin("noop", [f"{'.'.join(place)}={value}"])

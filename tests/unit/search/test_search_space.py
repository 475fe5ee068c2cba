"""Spaces: what they are read as, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kaput.errors import UsageError
from kaput.scenario.builtin import builtin_names
from kaput.scenario.targets import recorded_target
from kaput.search.draw import draw
from kaput.search.loading import derived, from_text, load, space_names
from kaput.search.space import Choices, Space

SPACE = """\
version: 1
title: A space
base: leader-kill-acks-all
set: {workload.producers.0.messages: 2000}
timeouts: {session: 10s}
vary:
  at-most: 2
  faults:
    - {fault: [kill, stop], target: broker 1, at: 1s, for: [session, 3s]}
    - {fault: resize, target: topic orders, partitions: [13, 14], at: {message: [10, 20]}, times: 1}
  settings:
    cluster.config.min.insync.replicas: [1, 2]
control: {workload.producers.0.acks: 1}
"""


def space(text: str = SPACE) -> Space:
    return from_text("mine", "mine.yaml", text)


def test_timeout_name_expands_to_four_multiples() -> None:
    knob = next(knob for knob in space().templates[0].knobs if knob.path == ("for",))
    assert knob.options == ("5s", "9s", "11s", "20s", "3s")


def test_lists_in_a_step_are_choices_at_any_depth() -> None:
    resize = space().templates[1]
    assert [knob.path for knob in resize.knobs] == [("partitions",), ("at", "message")]
    assert resize.step({("partitions",): 14, ("at", "message"): 20})["at"] == {"message": 20}


def test_scenario_merges_base_choices_and_expectations() -> None:
    step = {"fault": "kill", "target": "broker 1", "at": "1s"}
    scenario = space().scenario(Choices((step,), {"cluster.config.min.insync.replicas": 1}))
    assert [fault.fault for fault in scenario.faults] == ["kill"]
    assert scenario.cluster.config["min.insync.replicas"] == 1
    assert scenario.workload.producers[0].messages == 2000
    assert scenario.expect.verdict == "held"


def test_control_is_applied_after_the_choices() -> None:
    assert space().with_control().scenario(Choices((), {})).workload.producers[0].acks == "1"


def test_every_error_is_reported_with_its_line() -> None:
    broken = (
        SPACE.replace("[kill, stop]", "[kill, stopp]")
        .replace("[1, 2]", "[1, {}]")
        .replace("acks: 1", "acks: 7")
        .replace("partitions: [13, 14]", "partitions: [13, 0]")
    )
    with pytest.raises(UsageError) as refused:
        space(broken)
    lines = str(refused.value).splitlines()
    assert [line.split(":")[1] for line in lines] == ["9", "10", "12", "13"]
    assert "did you mean stop" in lines[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (SPACE.replace("vary:", "varies:"), "mine.yaml:6: varies: no such key; did you mean vary?"),
        (SPACE.replace("leader-kill-acks-all", "leader-kill-acks-al"), "mine.yaml:3: base:"),
        (SPACE.replace("session: 10s", "session: soon"), "mine.yaml:5: timeouts.session: 'soon'"),
        ("version: 1\ntitle: x\nbase: noop\nvary: {}\n", "nothing varies"),
        (
            SPACE.replace("{workload.producers.0.messages", "{workload.producer.0.messages"),
            "mine.yaml:4: set",
        ),
    ],
)
def test_invalid_space_is_rejected(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=r"mine\.yaml") as refused:
        space(text)
    assert says in str(refused.value)


def test_written_space_is_self_contained() -> None:
    again = space(space().to_yaml())
    [choices] = draw(space(), [], Random(3))
    assert again.scenario(choices) == space().scenario(choices)


@pytest.mark.parametrize("name", space_names())
def test_builtin_spaces_and_controls_can_be_drawn_from(name: str) -> None:
    for each in (load(name), load(name).with_control()):
        [choices] = draw(each, [], Random(0))
        assert each.scenario(choices).expect == load(name).file.expect
    assert load(name).file.control


def test_unknown_space_name_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean share-latest-resize"):
        load("share-latest-resized")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * (n % 3 > 0)) for n, name in enumerate(builtin_names())],
)
def test_every_builtin_scenario_has_a_derived_space(name: str) -> None:
    own = derived(name)
    [choices] = draw(own, [], Random(1))
    assert 1 <= len(choices.steps) <= 3
    assert own.scenario(choices).expect.verdict == "held"


def test_example_space_in_the_docs_is_valid() -> None:
    page = (Path(__file__).parents[3] / "docs" / "SEARCH.md").read_text()
    own = space(page.partition("```yaml\n")[2].partition("```")[0])
    assert len(own.templates) == 2


@pytest.mark.parametrize(
    ("target", "several"),
    [
        ("followers-of orders/0", True), ("members of billing", True), ("minority", True), ("all", True),
        ("broker 2", False), ("leader-of orders/0", False), ("member 2 of billing", False), ("any", False),
        ("topic orders", False),
    ],
)  # fmt: skip
def test_targets_that_name_several(target: str, several: bool) -> None:
    assert recorded_target(target).may_be_several is several


def test_template_knows_its_own_steps() -> None:
    text = "{fault: [stop, pause], target: [broker 1, any], at: [1s, {event: election, nth: 2}], for: 2s}"
    [template] = from_text("s", "s.yaml", SPACE_OF_ONE.format(text)).templates
    step = {"fault": "stop", "target": "any", "at": "1s", "for": "2s"}
    assert template.has(step)
    for key, value in {"fault": "kill", "target": "broker 2", "at": "2s", "for": "3s", "rate": 3}.items():
        assert not template.has({**step, key: value})
    assert not template.has({key: value for key, value in step.items() if key != "for"})


SPACE_OF_ONE = """
version: 1
title: One step
base: leader-kill-acks-all
vary: {{faults: [{}]}}
"""

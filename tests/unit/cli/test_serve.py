"""Requests of `kaput serve`, without brokers: what is answered, and that faults end with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from inspect import signature
from typing import Any

import pytest

from kaput.api.counting import Counted, count
from kaput.cli.serve import Requests, serve_command
from kaput.cli.up import up_command
from kaput.errors import FaultError, LabError, UsageError
from kaput.operate.fault_injection import InjectedFault


class FakeLab:
    """Remembers what it is asked."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.create_topic = self.status = self.account = self.produce = self.partitions = self._refuse

    def _refuse(self, **_: Any) -> Any:
        raise LabError("no broker answers")

    def count(self, topic: str, acked: list[str], by: str) -> Counted:
        return count(self, topic, acked, by)  # type: ignore[arg-type]

    @contextmanager
    def fault(self, fault: str, target: str, **options: Any) -> Iterator[InjectedFault]:
        if fault == "kil":
            raise UsageError("no fault kil; did you mean kill?")
        self.done.append(f"{fault} {target} {options}")
        yield InjectedFault("1-kill", fault, target, [2], 1, 2, "its process has exited")
        self.done.append("healed")
        if target == "broker 3":
            raise FaultError("broker 3 did not come back")


def ask(requests: Requests, **request: Any) -> dict[str, Any]:
    return requests.answer(json.dumps(request))


@pytest.fixture
def lab() -> FakeLab:
    return FakeLab()


def test_options_for_the_cluster_are_those_of_up() -> None:
    """As docs/OTHER_LANGUAGES.md says: but for the network, which is always the loopback interface."""
    of_up = {*signature(up_command).parameters} - {
        "network",
        "cluster",
        "detach",
        "metrics",
        "dashboard",
        "json",
    }
    assert {*signature(serve_command).parameters} - {"logs"} == of_up


def test_a_fault_is_injected_and_healed(lab: FakeLab) -> None:
    """With its options; a second heal is a mistake that names what is active."""
    with ExitStack() as faults:
        requests = Requests(lab, faults)  # type: ignore[arg-type]
        answer = ask(requests, id=7, do="inject", fault="delay", target="broker 2", delay="50ms")
        assert answer["id"] == 7 and answer["result"]["brokers"] == [2] and answer["result"]["proof"]
        assert ask(requests, do="heal", fault="1-kill") == {"result": {"healed": "1-kill"}}
        assert lab.done == ["delay broker 2 {'delay': '50ms'}", "healed"]
        assert ask(requests, do="heal", fault="1-kill")["error"] == "no fault 1-kill is active; active: none"
    assert lab.done.count("healed") == 1


def test_active_faults_end_with_the_process(lab: FakeLab) -> None:
    """Before the cluster does."""
    with ExitStack() as faults:
        ask(Requests(lab, faults), do="inject", fault="kill")  # type: ignore[arg-type]
        assert lab.done == ["kill any {}"]
    assert lab.done[-1] == "healed"


@pytest.mark.parametrize(
    ("line", "kind", "sentence"),
    [
        ('{"do": "inject", "fault": "kil"}', "usage", "did you mean kill?"),
        ('{"do": "injekt"}', "usage", "no request injekt; did you mean inject?"),
        ('{"do": "status"}', "lab", "no broker answers"),
        ('{"fault": "kill"}', "usage", "not a request: 'do'"),
        ("[1]", "usage", "not a request"),
        ("nonsense", "usage", "not a request"),
        ('{"do": "inject", "nme": 1}', "usage", "not a request"),
        ('{"do": "count", "topic": "t", "acked": [], "by": "id"}', "usage", "neither key nor value"),
    ],
)
def test_a_wrong_request_is_answered(lab: FakeLab, line: str, kind: str, sentence: str) -> None:
    """With a sentence and its kind."""
    with ExitStack() as faults:
        answer = Requests(lab, faults).answer(line)  # type: ignore[arg-type]
    assert answer["kind"] == kind and sentence in answer["error"]


def test_a_heal_that_is_not_confirmed_is_an_error(lab: FakeLab) -> None:
    """Of the kind fault."""
    with ExitStack() as faults:
        requests = Requests(lab, faults)  # type: ignore[arg-type]
        ask(requests, do="inject", fault="kill", target="broker 3")
        answer = ask(requests, do="heal", fault="1-kill")
    assert (answer["kind"], answer["error"]) == ("fault", "broker 3 did not come back")

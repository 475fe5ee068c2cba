"""The daemon's requests, with a lab that only remembers: what becomes of several faults at once."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from fakes.standing_lab import StandingLab
from kaput.errors import UsageError
from kaput.operate.daemon import Daemon
from kaput.operate.registry import directory_of
from waiting import wait_for


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandingLab]:
    """No cluster is registered for it."""
    with tempfile.TemporaryDirectory(prefix="k-") as short:
        monkeypatch.setenv("XDG_STATE_HOME", short)
        yield StandingLab()


def asked(daemon: Daemon, **request: object) -> dict[str, Any]:
    """The daemon's answer."""
    return daemon.answer(json.dumps(request).encode())


def kill(daemon: Daemon, for_ms: int | None = None) -> None:
    """Kills the broker once more, as far as this lab is concerned."""
    asked(daemon, do="inject", fault="kill", target="broker 1", options={}, for_ms=for_ms)


def test_healing_all_goes_on_past_a_heal_that_is_not_confirmed(lab: StandingLab) -> None:
    """The error names it, and what is healed; nothing stays active, and the list shows which is which."""
    daemon = Daemon(directory_of("lab"), lab)  # type: ignore[arg-type]
    for _ in range(3):
        kill(daemon)
    lab.unconfirmed = {"2-kill"}
    answer = asked(daemon, do="heal", fault=None)
    assert answer == {
        "error": "1 of 3 faults: 2-kill: 2-kill is not confirmed to be healed: still gone "
        "(healed: 1-kill, 3-kill)",
        "usage": False,
    }
    assert [each["state"] for each in asked(daemon, do="faults")["result"]] == [
        "healed",
        "not proven",
        "healed",
    ]
    assert lab.active_faults == [] and "no fault is active" in asked(daemon, do="heal")["error"]


def test_healing_all_skips_what_its_own_time_has_healed_meanwhile(lab: StandingLab) -> None:
    """That is no mistake of the user's, and the others are still healed."""
    daemon = Daemon(directory_of("lab"), lab)  # type: ignore[arg-type]
    kill(daemon)
    kill(daemon)
    heal = lab.heal

    def first_is_gone(name: str) -> object:
        if name == "1-kill":
            heal(name)
            raise UsageError(f"no fault {name} is active")
        return heal(name)

    lab.heal = first_is_gone  # type: ignore[assignment, method-assign]
    assert [each["id"] for each in asked(daemon, do="heal")["result"]] == ["1-kill", "2-kill"]
    assert ("heal", "2-kill") in lab.done


def test_a_heal_whose_time_comes_and_is_not_confirmed_is_in_the_list(lab: StandingLab) -> None:
    """With its proof; nobody waits for an answer there."""
    daemon = Daemon(directory_of("lab"), lab)  # type: ignore[arg-type]
    lab.unconfirmed = {"1-kill"}
    kill(daemon, for_ms=1)
    wait_for(lambda: asked(daemon, do="faults")["result"][0]["state"] != "active", "the heal")
    (found,) = asked(daemon, do="faults")["result"]
    assert found["state"] == "not proven" and "still gone" in found["proof"] and found["healed_ns"]

"""The control room's requests: who may change a cluster through a page, and who may not."""

from __future__ import annotations

import http.client
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.attempts import ATTEMPTS
from fakes.run_folders import KEY, Site, served
from fakes.standing_lab import StandingLab, standing_lab
from kaput.dashboard.guard import MOST_BYTES
from kaput.dashboard.sidecar import sidecar
from waiting import PATIENCE_S

KILL = {"fault": "kill", "target": "broker 1"}


@pytest.fixture(scope="module")
def state() -> Iterator[Path]:
    """A state directory with a path that is short enough for a socket."""
    path = Path(tempfile.mkdtemp(prefix="kaput-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(path))
        yield path
    shutil.rmtree(path)


@pytest.fixture
def lab(state: Path) -> Iterator[StandingLab]:
    with standing_lab() as found:
        yield found


@pytest.fixture(scope="module")
def site(state: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A dashboard whose key is KEY."""
    with served(tmp_path_factory.mktemp("runs"), KEY) as found:
        yield found


def test_a_fault_is_injected_and_healed_with_the_key(site: Site, lab: StandingLab) -> None:
    """The page is told what the daemon says; options are values of YAML, as on the command line."""
    wanted = {**KILL, "options": {"percent": "10", "from": "[broker 2]", "rate": ""}, "for": ""}
    answer = site.post("/clusters/lab/inject", wanted)
    assert answer.status == 200, answer.text
    assert json.loads(answer.text)["proof"] == "gone"
    assert lab.done == [("inject", "kill", "broker 1", {"percent": 10, "from": ["broker 2"]})]
    healed = site.post("/clusters/lab/heal", {"fault": "1-kill"})
    assert [fault["state"] for fault in json.loads(healed.text)] == ["healed"]
    assert lab.done[1:] == [("heal", "1-kill")]


@pytest.mark.parametrize("attempt", ATTEMPTS)
@pytest.mark.parametrize("verb", ["inject", "heal"])
def test_forged_request_is_rejected(site: Site, lab: StandingLab, verb: str, attempt: str) -> None:
    """Whatever is not a request of this dashboard's own page, with the key."""
    status, headers = ATTEMPTS[attempt]
    named = {name.replace("_", "-"): value for name, value in headers.items() if name != "method"}
    wanted = KILL if verb == "inject" else {"fault": "1-kill"}
    answer = site.post(f"/clusters/lab/{verb}", wanted, headers.get("method", "POST"), **named)
    assert answer.status == status, answer.text
    assert lab.done == [] and lab.active_faults == []
    assert "access-control-allow-origin" not in answer.headers


def test_oversized_request_is_rejected(site: Site, lab: StandingLab) -> None:
    """Nor what says that it is small."""
    large = json.dumps({**KILL, "options": {"x": "y" * MOST_BYTES}}).encode()
    assert site.post("/clusters/lab/inject", large).status == 413
    assert site.post("/clusters/lab/inject", large, Content_Length="20").status == 400
    assert lab.done == []


def test_a_dashboard_without_a_key_changes_nothing(lab: StandingLab, tmp_path: Path) -> None:
    """With --read-only, and next to a run; an empty key opens nothing, either."""
    with served(tmp_path) as site:
        for key in (KEY, "", "None"):
            answer = site.post("/clusters/lab/inject", KILL, X_Kaput_Key=key)
            assert answer.status == 405
        assert 'data-read-only="yes"' in site.ask("/clusters/lab").text
    assert lab.done == []


@pytest.mark.parametrize(
    ("verb", "wanted"),
    [
        ("heal", {}),  # the daemon would heal all
        ("heal", {"fault": ""}),
        ("heal", {"fault": None}),
        ("inject", {"fault": "kill"}),
        ("inject", {**KILL, "do": "down"}),
        ("inject", {**KILL, "for": "soon"}),
        ("inject", {**KILL, "options": {"a": "["}}),
        ("inject", b"no JSON"),
        ("inject", b"[]"),
    ],
)
def test_invalid_request_is_rejected_with_an_error(
    site: Site, lab: StandingLab, verb: str, wanted: Any
) -> None:
    """And nothing is done in part."""
    answer = site.post(f"/clusters/lab/{verb}", wanted)
    assert answer.status == 400 and json.loads(answer.text)["error"]
    assert lab.done == []


def test_daemon_errors_are_passed_on(site: Site, lab: StandingLab) -> None:
    """A fault that did not take effect, one that is not active, a cluster that is not there."""
    failed = site.post("/clusters/lab/inject", {**KILL, "fault": "pause"})
    assert failed.status == 409 and "did not take effect" in json.loads(failed.text)["error"]
    unknown = site.post("/clusters/lab/heal", {"fault": "9-kill"})
    assert unknown.status == 400 and "no fault 9-kill" in json.loads(unknown.text)["error"]
    assert "no cluster named" in site.post("/clusters/other/inject", KILL).text


def test_the_key_is_on_no_page(site: Site, lab: StandingLab) -> None:
    """Other users of this machine can ask for pages."""
    for path in ("/", "/clusters/lab", "/clusters/lab/kinds", "/static/key.js"):
        answer = site.ask(path)
        assert answer.status == 200 and KEY not in answer.text and KEY not in str(answer.headers)


def test_a_cluster_is_listed_and_shown_though_no_broker_answers(site: Site, lab: StandingLab) -> None:
    """What is not known is null, and what kaput knows is there; when it is gone, the page is told."""
    assert 'href="/clusters/lab"' in site.ask("/").text
    kinds = {kind["fault"]: kind for kind in json.loads(site.ask("/clusters/lab/kinds").text)}
    assert "kill" in kinds and "isolate" not in kinds and "join" not in kinds  # it has no network of its own
    with site.events("lab", of="clusters") as events:
        kind, _, now = next(events)
    assert kind == "message" and now["partitions"] is None and now["written_per_s"] is None
    assert [node["state"] for node in now["brokers"]] == ["running"]
    assert site.ask("/clusters/nobody").status == 404
    assert site.ask("/clusters/nobody/events").status == 404
    assert site.ask("/clusters/..%2flab").status == 404


def test_event_stream_ends_when_the_cluster_is_gone(site: Site, state: Path) -> None:
    """The stream ends with the reason."""
    with standing_lab("short") as _, site.events("short", of="clusters") as events:
        assert next(events)[0] == "message"
        shutil.rmtree(next(state.glob("kaput/clusters/*/short")))
        kinds = [(kind, data) for kind, _, data in events]
    assert kinds[-1][0] == "end" and "no cluster named" in kinds[-1][1]


def test_sidecar_dashboard_of_a_cluster_gets_its_key(state: Path, tmp_path: Path) -> None:
    """In its environment, and it is on the address that is shown; one next to a run has none."""
    for key, status in ((KEY, 400), (None, 405)):
        with sidecar(tmp_path, key=key) as found:
            url = f"http://127.0.0.1:{found.port}"
            headers = {"Origin": url, "X-Kaput-Key": KEY, "Content-Type": "application/json"}
            connection = http.client.HTTPConnection("127.0.0.1", found.port, timeout=PATIENCE_S)
            connection.request("POST", "/clusters/lab/heal", b'{"fault": "1-kill"}', headers)
            assert connection.getresponse().status == status
            connection.close()
            assert found.control_room("lab") == f"{url}/clusters/lab#{key}"

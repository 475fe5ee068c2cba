"""Runs that are started on a page: by whom, one at a time, and what is left of them.

The runs are programs of a few lines.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from fakes.attempts import ATTEMPTS
from fakes.run_folders import KEY, Site, made, served
from kaput.dashboard.safe_files import Runs
from kaput.dashboard.starter import Starter
from waiting import PATIENCE_S, eventually

# As `kaput run`: records in a folder, says something, cleans up after Ctrl-C. It takes argv, and notes it.
RUN = """
import json, os, signal, sys, time
from pathlib import Path
from kaput.evidence.recording import hold_to_record
folder = Path(sys.argv[sys.argv.index("--runs") + 1]) / f"run-{os.getpid()}"
folder.mkdir()
(folder / "argv.json").write_text(json.dumps([sys.argv[1:], os.getpriority(os.PRIO_PROCESS, 0)]))
try:
    with hold_to_record(folder, "kaput run"):
        print("noop: warm up", file=sys.stderr, flush=True)
        time.sleep(600)
except KeyboardInterrupt:
    (folder / "cleaned").write_text("")
    sys.exit(130)
"""
PROGRAM = (sys.executable, "-c", RUN)


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture
def starter(runs: Path) -> Iterator[Starter]:
    with closing(Starter(Runs(runs), PROGRAM)) as found:
        yield found


@pytest.fixture
def site(runs: Path, starter: Starter) -> Iterator[Site]:
    """A dashboard whose key is KEY."""
    with served(runs, KEY, starter) as found:
        yield found


def _started(site: Site) -> Any:
    return json.loads(site.ask("/started").text)


def _running(site: Site) -> Any:
    """The run, as soon as it has a folder and has said something."""
    assert eventually(lambda: _started(site)["name"] and _started(site)["said"])
    return _started(site)


def test_a_run_is_started_followed_and_stopped(site: Site, runs: Path) -> None:
    """With the changes of the form; it is interrupted as by Ctrl-C, and another one may be started then."""
    wanted = {"set": {"workload.producers.0.messages": "5"}, "seed": 7}
    assert site.post("/new/noop/start", wanted).status == 200
    now = _running(site)
    assert now["state"] == "running" and now["said"] == ["noop: warm up"]
    assert now["address"] == f"/runs/{now['name']}"
    arguments, _ = json.loads((runs / now["name"] / "argv.json").read_text())
    changed = "workload.producers.0.messages=5"
    assert arguments == ["run", "noop", "--set", changed, "--seed", "7", "--runs", str(runs)]
    refused = site.post("/new/noop/start", {})
    assert refused.status == 400 and "is in progress" in json.loads(refused.text)["error"]
    assert site.post("/started/stop", {"run": "another"}).status == 400
    assert json.loads(site.post("/started/stop", {"run": now["name"]}).text)["state"] == "stopping"
    assert eventually(lambda: bool(_started(site)["state"] == "ended"))
    assert _started(site)["status"] == 130 and (runs / now["name"] / "cleaned").exists()
    assert site.post("/started/stop", {"run": now["name"]}).status == 400
    assert site.post("/new/noop/start", {}).status == 200
    assert site.post("/started/stop", {"run": ""}).status == 200


def test_live_page_can_stop_only_runs_started_here(site: Site, runs: Path) -> None:
    """And that of another run cannot."""
    site.post("/new/noop/start", {})
    name = _running(site)["name"]
    made(runs, "another", "recording")
    (runs / name / "manifest.json").write_text((runs / "another" / "manifest.json").read_text())
    assert "Stop this run" in site.ask(f"/runs/{name}/live").text
    assert "Stop this run" not in site.ask("/runs/another/live").text


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_forged_request_starts_and_stops_nothing(site: Site, runs: Path, attempt: str) -> None:
    """Whatever is not a request of this dashboard's own page, with the key."""
    status, headers = ATTEMPTS[attempt]
    named = {name: value for name, value in headers.items() if name != "method"}
    method = headers.get("method", "POST")
    assert site.post("/new/noop/start", {}, method, **named).status == status
    assert _started(site) == {} and list(runs.iterdir()) == []
    site.post("/new/noop/start", {})
    name = _running(site)["name"]
    assert site.post("/started/stop", {"run": name}, method, **named).status == status
    assert _started(site)["state"] == "running" and not (runs / name / "cleaned").exists()


@pytest.mark.parametrize(
    ("scenario", "wanted", "status"),
    [
        ("nothing", {}, 404),
        ("..noop", {}, 404),
        ("noop", {"set": {"workload.producers.0.messages": "many"}}, 400),
        ("noop", {"set": {"workload.producers.0.command": "rm"}}, 400),
        ("noop", {"set": {"x": 1}}, 400),
        ("noop", {"seed": -1}, 400),
        ("noop", {"seed": "7"}, 400),
        ("noop", {"args": ["--help"]}, 400),
        ("noop", b"no JSON", 400),
        ("noop", b"[]", 400),
    ],
)
def test_invalid_start_request_starts_nothing(site: Site, scenario: str, wanted: Any, status: int) -> None:
    answer = site.post(f"/new/{scenario}/start", wanted)
    assert answer.status == status and answer.text
    assert _started(site) == {}


def test_start_is_rejected_when_read_only_or_beside_a_run(runs: Path) -> None:
    """--read-only, and a dashboard that has nothing to start runs with: the form says how it would be."""
    with served(runs) as site:
        assert site.post("/new/noop/start", {}).status == 405
        for path in ("/new", "/new/noop"):
            page = site.ask(path)
            assert page.status == 200 and "without --read-only" in page.text
    with served(runs, KEY) as site:
        assert site.post("/new/noop/start", {}).status == 409
        assert site.post("/started/stop", {"run": ""}).status == 409
    assert list(runs.iterdir()) == []


def test_form_check_is_a_get_that_starts_nothing(site: Site) -> None:
    """Which starts nothing; the command that does the same is with it."""
    answer = site.ask("/new/noop/check?set=workload.producers.0.messages%3Dmany&set=faults.0.at%3D1s")
    found = json.loads(answer.text)
    assert [each["key"] for each in found["mistakes"]] == ["workload.producers.0.messages"]
    assert found["command"].endswith("--set faults.0.at=1s")
    refused = json.loads(site.ask("/new/noop/check?set=workload.producers.0.command%3Dx").text)
    assert "cannot be changed on a page" in refused["mistakes"][0]["text"]
    assert site.ask("/new/nothing").status == 404 and site.ask("/new/nothing/check").status == 404
    assert _started(site) == {}


def test_failed_start_is_reported(runs: Path) -> None:
    """Where there is no such program, and where what starts runs was killed."""
    with closing(Starter(Runs(runs), ["/no/such/kaput"])) as starter, served(runs, KEY, starter) as site:
        site.post("/new/noop/start", {})
        assert eventually(lambda: bool(_started(site)["state"] == "ended"))
        assert "cannot be started" in _started(site)["said"][0]
        starter.start("noop", ["run", "no\0op"])
        assert eventually(lambda: bool(_started(site)["state"] == "ended"))
        assert "null" in _started(site)["said"][0]
        os.kill(starter.pid, signal.SIGKILL)
        assert eventually(lambda: site.post("/new/noop/start", {}).status == 409)


NICENESS = os.getpriority(os.PRIO_PROCESS, 0)  # not 0 under `nice`
# A dashboard, as far as this goes: it steps back, and starts a run.
_DASHBOARD = """
import os, sys, time
from pathlib import Path
from kaput.dashboard.opening import lower_priority
from kaput.dashboard.safe_files import Runs
from kaput.dashboard.starter import Starter
starter = Starter(Runs(Path(sys.argv[1])), [sys.executable, "-c", os.environ["RUN"]])
lower_priority()
starter.start("noop", ["run", "noop"])
while not starter.started.name:
    time.sleep(0.02)
print(os.getpriority(os.PRIO_PROCESS, 0), starter.pid, starter.started.pid, starter.started.name, flush=True)
sys.stdin.readline()
starter.close()
"""


@contextmanager
def _dashboard(runs: Path) -> Iterator[tuple[subprocess.Popen[str], int, int, Path]]:
    """The process, that of its starter, that of the run, and the run's folder."""
    with subprocess.Popen(
        [sys.executable, "-c", _DASHBOARD, str(runs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "RUN": RUN},
    ) as process:
        assert process.stdout is not None
        nice, starter, run, name = process.stdout.readline().split()
        assert int(nice) == min(NICENESS + 10, 19)
        yield process, int(starter), int(run), runs / name
        process.kill()


@pytest.mark.parametrize("number", [None, signal.SIGKILL])
def test_a_run_ends_with_its_dashboard_and_cleans_up(runs: Path, number: int | None) -> None:
    """However that ends; meanwhile it was not behind other runs."""
    with _dashboard(runs) as (process, starter, run, folder):
        assert json.loads((folder / "argv.json").read_text())[1] == NICENESS
        if number is None:
            process.communicate("\n", timeout=PATIENCE_S)
        else:
            process.send_signal(number)
        assert eventually(lambda: not any(map(psutil.pid_exists, (starter, run))))
        assert (folder / "cleaned").exists()


def test_a_run_can_be_stopped_where_sigint_is_ignored(runs: Path) -> None:
    """As for a dashboard that a shell started in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with closing(Starter(Runs(runs), PROGRAM)) as starter, served(runs, KEY, starter) as site:
            site.post("/new/noop/start", {})
            now = _running(site)
            site.post("/started/stop", {"run": now["name"]})
            assert eventually(lambda: bool(_started(site)["state"] == "ended"))
            assert _started(site)["status"] == 130 and (runs / now["name"] / "cleaned").exists()
    finally:
        signal.signal(signal.SIGINT, before)


def test_run_ends_when_its_starter_is_killed(runs: Path) -> None:
    """Killed itself, that has a guardian."""
    with _dashboard(runs) as (process, starter, run, _):
        os.kill(starter, signal.SIGKILL)
        assert eventually(lambda: not psutil.pid_exists(run))
        process.communicate("\n", timeout=PATIENCE_S)
        assert process.returncode == 0

"""`noop` and `kaput demo` on a real cluster, counted again from the raw rows; test_builtins.py runs the
built-in scenarios.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from driving import Kaput, Result
from kaput.cli.demo import PAIR
from kaput.evidence.findings_file import read_findings


def test_noop_finds_nothing(kaput: Kaput) -> None:
    """Without a fault there is no anomaly at all: what is found in other runs is not the lab's doing."""
    result = kaput.run("noop", "--set", "workload.warm-up=10s")
    warm = r"brokers (warmed up in|are not warm after) \d+\.\d s: 99 % of acknowledgements within \d"
    assert re.search(warm, result.stderr)
    topics = {row["topic"] for row in result.rows("cluster_events", "topic")}
    assert topics == {None, "orders", "__consumer_offsets"}  # nothing of the warm-up
    result.assert_adds_up()
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.status == 0
    assert {a["name"]: a["count"] for a in result.findings["anomalies"] if a["count"]} == {}
    assert result.findings["totals"]["acked"] == result.findings["totals"]["sent"] >= 10_000


@dataclass(frozen=True)
class Demo:
    """What `kaput demo` printed, and its two runs."""

    stdout: str
    stderr: str
    acks_1: Result
    acks_all: Result


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The demo, judged in its own process."""
    kaput = Kaput(tmp_path_factory.mktemp("demo") / "runs")
    done = kaput.call("demo", "--runs", str(kaput.runs))
    results = []
    for path in sorted(kaput.runs.glob("*/findings.json")):
        results.append(Result(done.returncode, json.loads(path.read_text()), done.stderr, path.parent))
    assert [result.findings["run"]["scenario"] for result in results] == list(PAIR), done.stderr
    return Demo(done.stdout, done.stderr, *results)


@pytest.mark.alone
def test_demo_prints_one_screen_with_the_address_of_its_page_last(demo: Demo) -> None:
    """The table, a sentence with the counts of both runs, and where the pages are."""
    assert demo.stderr.startswith("A producer with acks=1 and one with acks=all")
    lines = demo.stdout.splitlines()
    assert len(lines) <= 23 and lines[0] == "Runs"
    lost = demo.acks_1.count("lost")
    assert f"With acks=1, {lost:,} of 40,000 acknowledged messages are lost" in " ".join(lines)
    page = Path(unquote(urlsplit(lines[-1]).path))
    assert "</html>" in page.read_text()
    for result in (demo.acks_1, demo.acks_all):
        assert f'href="../{result.folder.name}/report.html"' in page.read_text()
        assert "</html>" in (result.folder / "report.html").read_text()


@pytest.mark.alone
@pytest.mark.long  # its sibling: spark/test_run_folder_urls.py, of a smaller run
def test_spark_in_a_jvm_finds_the_same_of_the_demo(demo: Demo, tmp_path: Path) -> None:
    """Of a copy, by the command."""
    found = read_findings(demo.acks_1.folder / "findings.json")
    copy = shutil.copytree(demo.acks_1.folder, tmp_path / "run")
    Kaput(tmp_path).call("analyze", str(copy), "--no-page", "--master", "local[*]")
    assert read_findings(copy / "findings.json") == found


@pytest.mark.alone
def test_both_halves_of_the_demo_see_the_same_kill(demo: Demo) -> None:
    """At the same time, on the same broker."""
    one, other = (result.fault("kill") for result in (demo.acks_1, demo.acks_all))
    assert one["brokers"] == other["brokers"] == [1]
    assert one["effective_ns"] == other["effective_ns"]
    assert one["election_ms"] > 0 and other["election_ms"] > 0
    demo.acks_all.assert_adds_up()
    assert demo.acks_all.findings["verdict"] == "held", demo.acks_all.findings["reasons"]
    assert demo.acks_all.count("lost") == len(demo.acks_all.lost()) == 0


@pytest.mark.alone
def test_lagging_followers_and_acks_1_lose_messages(demo: Demo) -> None:
    """What the leader acknowledged alone is gone with it: counted, dated, caused by the deposed leader."""
    result = demo.acks_1
    result.assert_adds_up()
    lost, kill = result.count("lost"), result.fault("kill")
    assert result.findings["verdict"] == "held", result.findings["reasons"]
    assert result.status == 0
    assert lost > 0
    assert lost == len(result.lost())
    assert result.causes("lost") == {"deposed-leader": lost}
    result.assert_witnessed(broker=1, epoch=0)
    assert kill["lost"] == lost
    pause = result.fault("pause")
    # Only what was acknowledged between the pause of the followers and the kill can be lost.
    assert pause["injected_ns"] <= kill["first_lost_ack_ns"] <= kill["last_lost_ack_ns"]
    assert kill["last_lost_ack_ns"] <= kill["effective_ns"] + 50_000_000
    assert 0 < kill["loss_window_ms"] <= (kill["effective_ns"] - pause["injected_ns"]) / 1e6 + 50
    assert kill["election_ms"] > 0 and kill["first_ack_after_ms"] >= kill["election_ms"]
    assert kill["unavailable_ms"] > 1_000

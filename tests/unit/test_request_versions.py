"""Which versions were really used: noted by brokers, told by kind of client, shown, and held to the wish."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.dataset as ds
import pytest

from kaput.analysis.questions.clients import requests
from kaput.evidence.findings import Findings
from kaput.evidence.findings_parts import ClientRequests, FeatureLevels
from kaput.evidence.folder import RunFolder
from kaput.evidence.sealing import seal
from kaput.report.document import Bullets, Table
from kaput.report.sections import JudgedRun
from kaput.report.sections.clients import versions
from kaput.runner.cluster_events import record_requests
from kaput.runner.run_cluster import RunCluster
from kaput.scenario.model import Scenario
from unit.report.handmade_findings import document
from unit.verdict.conftest import facts_of, judge

SCENARIO = {
    "version": 1,
    "title": "t",
    "cluster": {"features": {"transaction.version": 2, "group.version": 1}},
    "topics": [{"name": "orders"}],
    "workload": {
        "producers": [
            {"topic": "orders", "messages": 1, "client": "java", "client-version": "3.9.2"},
            {"topic": "orders", "messages": 1},
        ],
        "groups": [
            {"id": "a", "topics": ["orders"], "member-versions": {3: "2.3.0"}},
            {"id": "a-member-1", "topics": ["orders"]},
        ],
    },
}


def test_request_versions_are_grouped_by_kind_of_client() -> None:
    """Clients by their ids; what kaput and the brokers themselves sent is left out."""
    noted = [
        ("kaput-producer-0", "Produce", 11), ("kaput-producer-1", "Produce", 10),
        ("kaput-producer-1", "EndTxn", 1), ("kaput-producer-7", "EndTxn", 1),
        ("kaput-producer-1", "Produce", 9), ("kaput-a-member-2", "Fetch", 16),
        ("kaput-a-member-3", "Fetch", 11), ("kaput-a-member-1-member-3", "Fetch", 15),
        ("kaput-replay", "Produce", 10), ("kaput", "Fetch", 16), ("kaput-warm-up", "Fetch", 16),
        ("broker-2-fetcher-0", "Fetch", 18),
        ("1", "Envelope", 0), ("AddPartitionsManager-client-1", "AddPartitionsToTxn", 5),
        ("mine", "Fetch", 4),
    ]  # fmt: skip
    rows = [dict(zip(("client_id", "api", "version"), one, strict=True)) for one in noted]
    libraries = {"producers (librdkafka)": ["librdkafka 2.16.0"], "group a-member-1 (librdkafka)": ["x"]}
    given: Any = SimpleNamespace(
        evidence=SimpleNamespace(rows=lambda table: rows),
        group_specs=Scenario.model_validate(SCENARIO).workload.groups,
        clients={0: "java 3.9.2", 1: "librdkafka"},
        manifest=SimpleNamespace(libraries=libraries),
    )
    found = requests(given)
    assert {one.client: one.libraries for one in found if one.libraries} == libraries
    assert {one.client: one.requests for one in found if one.requests} == {
        "producers (java 3.9.2)": {"Produce": [11]},
        "producers (librdkafka)": {"EndTxn": [1], "Produce": [9, 10]},
        "producers (pipe)": {"EndTxn": [1]},
        "group a (librdkafka)": {"Fetch": [16]},
        "group a (librdkafka 2.3.0)": {"Fetch": [11]},
        "group a-member-1 (librdkafka)": {"Fetch": [15]},
        "mine": {"Fetch": [4]},
        "kaput-replay": {"Produce": [10]},
    }


def test_requests_logged_by_brokers_are_evidence(tmp_path: Path) -> None:
    """Without a line that a SIGKILL tore, a broker that noted nothing, and clients of other runs."""
    (tmp_path / "noted").write_text(
        "17\tEndTxn\t5\tkaput-producer-0\n18\tFetch\t4\ta\tb\n18\tFetch\t4\tanother-run\n19\tProd"
    )
    nodes = {
        n: SimpleNamespace(id=n, layout=SimpleNamespace(requests=tmp_path / f"noted{more}"))
        for n, more in ((1, ""), (2, "-not"))
    }
    cluster: Any = RunCluster("", SimpleNamespace(nodes=nodes), None)  # type: ignore[arg-type]
    cluster.has_client = lambda client_id: client_id != "another-run"
    record_requests(tmp_path, cluster)
    folder = RunFolder(tmp_path)
    seal(folder)
    rows = ds.dataset(folder.table("requests")).to_table().to_pylist()
    assert [(row["broker"], row["api"], row["version"], row["client_id"], row["at_ns"]) for row in rows] == [
        (1, "EndTxn", 5, "kaput-producer-0", 17_000_000),
        (1, "Fetch", 4, "a\tb", 18_000_000),
    ]


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ({"transaction.version": 2, "group.version": 1, "metadata.version": 29}, []),
        (
            {"group.version": 1},
            ["The scenario wants transaction.version 2, and the level was 0: what was to be tested was not."],
        ),
    ],
)
def test_unexpected_feature_level_is_inconclusive(levels: dict[str, int], said: list[str]) -> None:
    """What is not recorded is not held against a run."""
    wanted = Scenario.model_validate(SCENARIO)
    judged = judge(facts_of(features={"": levels}), wanted)
    assert [each for each in judged.reasons if "scenario wants" in each] == said
    assert (judged.verdict == "inconclusive") == bool(said)
    assert judge(facts_of(), wanted).verdict == "held"


def test_report_shows_feature_levels_and_request_versions() -> None:
    """A line for each cluster, a row for each kind of client; nothing where nothing is recorded."""
    found = Findings.model_validate(document())
    assert versions(JudgedRun(found)) is None
    features = [
        FeatureLevels(cluster="dc1", levels={"metadata.version": 21}, changed={"metadata.version": 29}),
        FeatureLevels(cluster=None, levels={"metadata.version": 29, "group.version": 1}),
    ]
    requests = {"EndTxn": [4, 5], "Produce": [13]}
    used = [ClientRequests(client="producers (java)", libraries=["kafka-clients 4.3.1"], requests=requests)]
    shown = versions(JudgedRun(found.model_copy(update={"features": features, "requests": used})))
    assert shown is not None and shown.blocks == [
        Bullets(["dc1: metadata.version 21 (29 at the end)", "group.version 1, metadata.version 29"]),
        Table(
            ["client", "library", "versions of its requests"],
            [["producers (java)", "kafka-clients 4.3.1", "EndTxn 4/5, Produce 13"]],
            "lll",
        ),
    ]

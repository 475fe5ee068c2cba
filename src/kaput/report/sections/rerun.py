"""How to run it again: the configuration that decides which outcomes are permitted, the command, versions."""

from __future__ import annotations

from datetime import UTC, datetime

from kaput.core import plural, qualified
from kaput.evidence.findings import Findings
from kaput.evidence.folder import Manifest
from kaput.report.document import Block, Code, NamedValues, Section
from kaput.report.sections import JudgedRun
from kaput.scenario.builtin import builtin_names
from kaput.scenario.model import Scenario
from kaput.scenario.producers import Producers
from kaput.verdict.contracts import never_retries, several_in_flight

_PROMISES = {
    "0": "promises nothing: any loss is permitted",
    "1": "messages that only a deposed leader acknowledged may be lost",
    "all": "nothing acknowledged may be lost while an in-sync replica keeps it and unclean elections are off",
}


def configuration(run: JudgedRun) -> Section | None:
    """Settings, and what they promise."""
    if run.scenario is None:
        return None
    facts = NamedValues(_settings(run.scenario))
    return Section("Configuration and what it promises", [facts], key="configuration", detail=True)


def rerun(run: JudgedRun) -> Section | None:
    """The command to repeat this run, if there is a scenario, and the facts that identify it."""
    known = run.scenario is not None or run.findings.run.scenario in builtin_names()
    blocks: list[Block] = [Code(_command(run))] if known else []
    if run.manifest is not None:
        blocks.append(NamedValues(_about(run.findings, run.manifest, run.described)))
    title = "How to run it again" if known else "This run"
    return Section(title, blocks, key="rerun") if blocks else None


def _settings(scenario: Scenario) -> list[tuple[str, str, str]]:
    """Settings: (name, value, what it promises)."""
    rows = []
    for cluster_name, cluster in scenario.all_clusters.items():
        of = f" of {cluster_name}" if cluster_name else ""
        racks = f", racks {', '.join(cluster.racks)} in turn" if cluster.racks else ""
        rows.append((f"brokers{of}", f"{cluster.brokers}, {cluster.mode}{racks}", ""))
        unclean = cluster.config.get("unclean.leader.election.enable")
        if unclean is not None:
            promise = "a leader outside the ISR may be elected" if str(unclean).lower() == "true" else ""
            rows.append((f"unclean.leader.election.enable{of}", str(unclean).lower(), promise))
    for topic in scenario.topics:
        settings = " ".join(f"{name}={value}" for name, value in topic.config.items())
        factor = topic.replica_count()
        text = f"{plural(topic.partitions, 'partition')}, replication factor {factor} {settings}".rstrip()
        rows.append(
            (
                f"topic {topic.full_name}",
                text,
                "one replica: what its broker loses is lost" if factor == 1 else "",
            )
        )
    for spec in scenario.workload.producers:
        text = f"acks={spec.acks} enable.idempotence={str(spec.idempotence).lower()}"
        text += "".join(f" {name}={value}" for name, value in spec.config.items()) + spec.in_words
        name = f"{plural(spec.count, 'producer')} to {qualified(spec.cluster, spec.topic)}"
        rows.append((name, text, _PROMISES[str(spec.acks)] + _retries(spec)))
        if (kept := spec.on_failure) is not None:
            stores = ", then ".join(f"{store} ({scenario.stores[store].kind})" for store in kept.stores)
            rows.append(("what Kafka does not take", f"is kept in {stores}; policy {kept.policy}", ""))
    for mirror in scenario.mirrors:
        once = (
            "committed copies are there once" if mirror.exactly_once else "a restart may copy records twice"
        )
        text = f"{mirror.engine}, exactly-once: {str(mirror.exactly_once).lower()}, policy {mirror.policy}"
        text += "".join(f" {name}={value}" for name, value in mirror.config.items())
        rows.append((f"mirror {mirror.name}", text, once))
    for group in scenario.workload.groups:
        config = "".join(f" {name}={value}" for name, value in group.config.items())
        assignor = f", {group.assignor}" if group.assignor else ""
        text = f"{group.members_in_words}, type {group.type}{assignor}{config}"
        rows.append((f"group {group.id}", text, ""))
    return rows


def _retries(spec: Producers) -> str:
    """What its client's retries may do."""
    if spec.idempotence or never_retries(spec):
        return ""
    return "; a retry may store a message twice" + (", or out of order" if several_in_flight(spec) else "")


def _command(run: JudgedRun) -> str:
    findings, name = run.findings, run.findings.run.scenario
    source = name if name in builtin_names() else "scenario.yaml"
    mode = (
        f" --set cluster.mode={findings.run.mode}" if source == name and findings.run.mode != "kraft" else ""
    )
    # Only of clusters that kaput started it knows which Java they had, and the whole version.
    versions = {} if run.manifest is None else run.manifest.versions
    there = ("kafka" in versions and "java" not in versions) or (findings.run.kafka or "").count(".") == 1
    where = " --bootstrap-servers HOST:PORT" if there else ""
    command = f"kaput run {source}{mode}{where} --seed {findings.run.seed}"
    if source == name and run.scenario is not None:
        whole = f"kaput run scenario.yaml{where} --seed {findings.run.seed}"
        return f"{command}\n# the resolved scenario, in the run folder:\n{whole}"
    return command if source == name else f"# in the run folder:\n{command}"


def _about(findings: Findings, manifest: Manifest, described: bool) -> list[tuple[str, str]]:
    run = findings.run
    rows = [("run", run.id), *([("seed", str(run.seed))] if described else [])]
    if run.started_ns:
        began = datetime.fromtimestamp(run.started_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        rows.append(("load began", began))
    if manifest.shares_cluster_with:
        rows.append(("cluster and faults shared with", ", ".join(manifest.shares_cluster_with)))
    rows += [(name, str(version)) for name, version in manifest.versions.items() if version]
    return rows + [(name, str(value)) for name, value in manifest.host.items()]

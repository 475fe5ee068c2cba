"""Clients: the feature levels of the clusters, the request versions that each kind of client used, and what
clients made of errors: how many requests a fault in the protocol answered with which error, and with which
errors of their clients messages ended without an acknowledgement, and transactions without a commit.

Clients are recognized by the client ids that kaput sets; a scenario may set others. What a client does on its
own about an error (ask again, find another coordinator) is not recorded: an error after which every message
was acknowledged has only the first number. Nor are the errors of members.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import polars as pl

from kaput.analysis.engine.question import Find, Question, Reported, SumPart, facts, findings
from kaput.analysis.engine.sums import Sum
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import ACKED
from kaput.analysis.runs.tables import read, units
from kaput.analysis.views.rows import Rows
from kaput.evidence.findings_parts import ClientErrors, ClientRequests, FeatureLevels
from kaput.scenario.groups import kind_of_client
from kaput.scenario.timeline import step_id

_PRODUCER = re.compile(r"kaput-producer-(\d+)(?:@.*)?")
# kaput's own readers and admin requests, and brokers (`broker-2-fetcher-0`, `Persister-client-1`,
# `raft-client-1`; controllers have plain numbers).
_NOT_CLIENTS = re.compile(r"kaput|kaput-warm-up|\d+|broker-\d+-.*|(raft|[A-Z]\w+)-client-\d+")


class ClientVersions(Question):
    """Reports both, from the manifest and the requests table."""

    def report(self, run: Run) -> Iterator[Reported]:
        manifest = run.given.manifest
        yield findings(
            features=[
                FeatureLevels(cluster=name or None, levels=levels, changed=_changed(levels, end))
                for name, levels in manifest.features.items()
                for end in [manifest.features_at_end.get(name, levels)]
            ],
            requests=requests(run.given),
        )
        yield facts(features=manifest.features)


def _changed(levels: dict[str, int], end: dict[str, int]) -> dict[str, int]:
    return {
        name: end.get(name, 0) for name in sorted({*levels, *end}) if end.get(name, 0) != levels.get(name, 0)
    }


def requests(given: Inputs) -> list[ClientRequests]:
    """By kind of client, the versions used of each request."""
    versions: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in given.evidence.rows("requests"):
        if (client := kind_of_client_id(row["client_id"], given)) is not None:
            versions[client][row["api"]].add(row["version"])
    libraries = given.manifest.libraries
    return [
        ClientRequests(
            client=client,
            libraries=libraries.get(client, []),
            requests={api: sorted(versions[client][api]) for api in sorted(versions[client])},
        )
        for client in sorted({*versions, *libraries})
    ]


def kind_of_client_id(client_id: str, given: Inputs) -> str | None:
    """The kind of client of a client id; None if it is not a client of the run."""
    if match := _PRODUCER.fullmatch(client_id):
        return f"producers ({given.clients.get(int(match[1]), 'pipe')})"
    for group in given.group_specs:
        if match := re.fullmatch(rf"kaput-{re.escape(group.id)}-member-(\d+)(?:@.*)?", client_id):
            return kind_of_client(group.as_member(int(match[1])))
    return None if _NOT_CLIENTS.fullmatch(client_id) else client_id


_ANSWERED = "answered with an error"
_TEXT = pl.col("error")
# What follows the colon names single messages and brokers. `Local` and `Broker` are no codes.
_CODE = (
    pl.when(_TEXT.str.contains("^(Local|Broker):"))
    .then(_TEXT)
    .otherwise(_TEXT.str.split(":").list.first())
    .alias("error")
)


class ErrorsOfClients(Question):
    """Counts rows of sends in the stage rows, those of transactions and of frames on the driver."""

    needs = {"rows": ("sends",)}
    sums = {"client_errors": Sum(("producer", "error"), ("n",), types={"error": pl.String()})}

    def of_rows(self, rows: Rows) -> Iterator[Find]:
        """By producer and error: messages that were not acknowledged."""
        if rows.table == "sends":
            found = rows.coded.runs.drop_nulls("error").filter(~ACKED)
            yield SumPart("client_errors", found.select("producer", _CODE, "n"))

    def report(self, run: Run) -> Iterator[Reported]:
        answered = _answered(run.given)
        messages, ended = (
            _by_kind(counts, run.given) for counts in (run.sums["client_errors"], _of_transactions(run))
        )
        yield findings(
            client_errors=[
                ClientErrors(
                    client=kind,
                    answered=_sorted(answered[kind]),
                    messages=_sorted(messages[kind]),
                    transactions=_sorted(ended[kind]),
                )
                for kind in sorted({*answered, *messages, *ended})
            ]
        )


def _of_transactions(run: Run) -> pl.DataFrame:
    """By producer and error: transactions that did not commit. Tasks do not get those without messages."""
    found = [pl.DataFrame(schema={"producer": pl.Int64, "error": pl.String, "n": pl.Int64})]
    for unit in units(run.given.evidence, "transactions"):
        rows = read(unit, run.names).whole().drop_nulls("error")
        rows = rows.filter(pl.col("outcome").cast(pl.String) != "committed").cast({"error": pl.String})
        found.append(rows.select("producer", _CODE, n=pl.lit(1, pl.Int64)))
    return pl.concat(found)


def _by_kind(counts: pl.DataFrame, given: Inputs) -> dict[str, Counter[str]]:
    """By kind of client and error, the counts of producers."""
    found = defaultdict[str, Counter[str]](Counter)
    for producer, error, n in counts.iter_rows():
        kind = kind_of_client_id(f"kaput-producer-{producer}", given) or f"producer {producer}"
        found[kind][error] += n
    return found


def _answered(given: Inputs) -> dict[str, Counter[str]]:
    """By kind of client: how many requests were answered with an error, by request and error."""
    steps = given.scenario.numbered_faults() if given.scenario else ()
    errors = {step_id(n, step): getattr(step.options, "error", None) for n, step in steps}
    found = defaultdict[str, Counter[str]](Counter)
    for row in given.evidence.rows("frames"):
        if row["action"] == _ANSWERED:
            kind = kind_of_client_id(row["client_id"] or "", given) or "others"
            found[kind][f"{row['api']} {errors.get(row['fault']) or 'unknown error'}"] += 1
    return found


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))

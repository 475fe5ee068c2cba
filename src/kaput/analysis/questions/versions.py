"""The feature levels of the clusters, and the request versions that each kind of client used.

Built on the driver. Clients are recognized by the client ids that kaput sets; a scenario may set others.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kaput.analysis.engine.question import Question, Reported, facts, findings
from kaput.analysis.facts.inputs import Inputs
from kaput.evidence.findings_parts import ClientRequests, FeatureLevels
from kaput.scenario.groups import kind_of_client

if TYPE_CHECKING:
    from kaput.analysis.run import Run

_PRODUCER = re.compile(r"kaput-producer-(\d+)(?:@.*)?")
# kaput's own readers and admin requests, and brokers (`broker-2-fetcher-0`, `Persister-client-1`; controllers
# have plain numbers).
_NOT_CLIENTS = re.compile(r"kaput|kaput-(warm-up|replay)|\d+|broker-\d+-.*|[A-Z]\w+-client-\d+")


class ClientVersions(Question):
    """Reports both, from the manifest and the requests table."""

    def report(self, run: Run) -> Iterator[Reported]:
        """Feature levels by cluster, request versions by kind of client."""
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
    for group in given.scenario.workload.groups if given.scenario else []:
        if client_id.startswith(f"kaput-{group.id}-member-"):
            return kind_of_client(group)
    return None if _NOT_CLIENTS.fullmatch(client_id) else client_id

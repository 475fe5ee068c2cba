"""Names of a scenario's clients in findings, reports and manifests."""

from __future__ import annotations

from kaput.scenario.groups import Group
from kaput.scenario.producers import Producers


def client_title(block: Producers | Group) -> str:
    """`java`, or `java 3.9.2` if the scenario sets a version."""
    return f"{block.client} {block.client_version}" if block.client_version else block.client


def kind_of_client(block: Producers | Group) -> str:
    """`producers (java 3.9.2)`, `group billing (librdkafka)`."""
    who = f"group {block.id}" if isinstance(block, Group) else "producers"
    return f"{who} ({client_title(block)})"

"""Options of clusters that kaput starts, for `kaput run` and `kaput up`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from kaput.cli.verbs import pairs

Brokers = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Number of brokers (default: the scenario's, or 3).")
]
Controllers = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Number of dedicated controllers (default: none; brokers vote)."),
]
Racks = Annotated[
    list[str] | None,
    typer.Option(
        "--rack", metavar="NAME", help="Name of a rack; brokers are spread over the racks. Repeatable."
    ),
]
Mode = Annotated[
    str | None, typer.Option(metavar="<kraft|zookeeper>", help="ZooKeeper needs Kafka 3.9 or older.")
]
Kafka = Annotated[str | None, typer.Option(metavar="VERSION", help="Kafka version, for example 3.9.2.")]
Network = Annotated[
    str | None,
    typer.Option(metavar="<loopback|namespaces>", help="namespaces: needed for network faults (Linux)."),
]
Security = Annotated[
    str | None, typer.Option(metavar="<none|scram-tls>", help="scram-tls: TLS, SASL/SCRAM and ACLs (KRaft).")
]
BrokerConfig = Annotated[
    list[str] | None,
    typer.Option("--config", metavar="KEY=VALUE", help="A Kafka broker setting. Repeatable."),
]
KafkaHome = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Use this Kafka installation instead of downloaded jars."),
]


def cluster_block(
    *,
    brokers: int | None,
    controllers: int | None,
    racks: list[str] | None,
    mode: str | None,
    kafka: str | None,
    network: str | None,
    security: str | None,
    config: list[str] | None,
) -> dict[str, Any]:
    """The given options as keys of a scenario's `cluster` block. Raises UsageError."""
    given = {
        "brokers": brokers, "controllers": controllers, "racks": racks or None, "mode": mode, "kafka": kafka,
        "network": network, "security": security, "config": pairs("--config", config) or None,
    }  # fmt: skip
    return {key: value for key, value in given.items() if value is not None}


def as_overrides(cluster: Mapping[str, Any]) -> dict[str, str]:
    """The given options as `--set` overrides, each with its option for messages."""
    config = {f"config.{key}": value for key, value in cluster.get("config", {}).items()}
    plain = {key: value for key, value in cluster.items() if key != "config"}
    options = {"racks": "--rack"}
    found = {}
    for key, value in {**plain, **config}.items():
        text = value if isinstance(value, str) else json.dumps(value)
        option = f"--config {key[7:]}={text}" if key in config else f"{options.get(key, f'--{key}')} {text}"
        found[f"cluster.{key}={text}"] = option
    return found


@contextmanager
def naming(options: Mapping[str, str]) -> Iterator[None]:
    """Within the block, messages about these overrides name the option instead of `--set`."""
    from kaput.errors import UsageError

    try:
        yield
    except UsageError as error:
        text = str(error)
        for override, option in options.items():
            key = override.partition("=")[0]
            text = text.replace(f"--set {override}", option).replace(
                f"{key} is set by --set", f"{key} is set by {option}"
            )
        raise UsageError(text) from None

"""`kaput serve`: a cluster for tests in any language, by lines of JSON on stdin and stdout.

The cluster lives as long as stdin is open, so nothing is left when the test's process ends, however it does.
The requests are documented in docs/OTHER_LANGUAGES.md; clients/java and clients/go use them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from kaput.cli.options import (
    AllowUnknown,
    BrokerConfig,
    Brokers,
    ClusterScenario,
    Controllers,
    Kafka,
    KafkaHome,
    Mode,
    Racks,
    Security,
    standing_block,
)
from kaput.cli.verbs import print_json
from kaput.errors import FaultError, KaputError, UsageError
from kaput.scenario.nearest import hint

if TYPE_CHECKING:
    from kaput.api.lab import Lab


def serve_command(
    scenario: ClusterScenario = None,
    *,
    brokers: Brokers = None,
    controllers: Controllers = None,
    racks: Racks = None,
    mode: Mode = None,
    kafka: Kafka = None,
    security: Security = None,
    config: BrokerConfig = None,
    kafka_home: KafkaHome = None,
    allow_unknown: AllowUnknown = False,
    logs: Annotated[
        Path | None,
        Option(
            metavar="DIR", file_okay=False, help="Keep the brokers' configs and logs here (default: deleted)."
        ),
    ] = None,
) -> None:
    """Start a cluster for tests in any language (JSON lines).

    Reads requests from stdin and answers on stdout, a line of JSON each; the first line says where the
    brokers are. Ends, and the cluster with it, when stdin is closed (docs/OTHER_LANGUAGES.md).

    Example: kaput serve --brokers 3
    """
    from kaput.api.lab import Lab
    from kaput.cli.jars import distribution_for
    from kaput.processes.signals import interrupts

    block = standing_block(
        scenario, brokers=brokers, controllers=controllers, racks=racks, mode=mode, kafka=kafka,
        network="loopback", security=security, config=config,
    )  # fmt: skip
    made = Lab(scenario, folder=logs, allow_unknown=allow_unknown, **block)
    made.fetch(lambda version, java: distribution_for(version, java, kafka_home))
    with interrupts(), made, ExitStack() as faults:
        _write({"ready": {"bootstrap_servers": made.bootstrap_servers, "brokers": made.brokers,
                          "client_settings": made.client_settings()}})  # fmt: skip
        requests = Requests(made, faults)
        for line in sys.stdin:
            if line.strip():
                _write(requests.answer(line))


def _write(document: dict[str, Any]) -> None:
    print_json(document)
    sys.stdout.flush()


class Requests:
    """What can be asked of a lab. `faults`: ended, and with it every fault that is still active."""

    def __init__(self, lab: Lab, faults: ExitStack) -> None:
        self._lab, self._faults = lab, faults
        self._active: dict[str, ExitStack] = {}
        self._do: dict[str, Callable[..., Any]] = {
            "create_topic": lab.create_topic,
            "partitions": lambda topic: {n: asdict(one) for n, one in lab.partitions(topic).items()},
            "status": lab.status,
            "inject": self._inject,
            "heal": self._heal,
            "produce": self._produce,
            "account": lambda: json.loads(lab.account().to_json()),
            "count": self._count,
        }

    def answer(self, line: str) -> dict[str, Any]:
        """The answer to a request, with its id: `result`, or `error` and its kind. Never raises."""
        request: Any = None
        try:
            request = json.loads(line)
            given = {key: value for key, value in request.items() if key not in ("id", "do")}
            do = self._do.get(request["do"])
            if do is None:
                raise UsageError(f"no request {request['do']}; {hint(str(request['do']), self._do)}")
            answer = {"result": do(**given)}
        except KaputError as error:
            kinds = {UsageError: "usage", FaultError: "fault"}
            kind = next((word for each, word in kinds.items() if isinstance(error, each)), "lab")
            answer = {"error": str(error), "kind": kind}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            answer = {"error": f"not a request: {error}", "kind": "usage"}
        return answer | ({"id": request["id"]} if isinstance(request, dict) and "id" in request else {})

    def _inject(self, fault: str, target: str = "any", **options: Any) -> dict[str, Any]:
        with ExitStack() as stack:
            injected = stack.enter_context(self._lab.fault(fault, target, **options))
            self._active[injected.id] = self._faults.enter_context(stack.pop_all())
        return asdict(injected)

    def _heal(self, fault: str) -> dict[str, str]:
        """Returns when it is healed and every broker is back."""
        if fault not in self._active:
            raise UsageError(f"no fault {fault} is active; active: {', '.join(self._active) or 'none'}")
        self._active.pop(fault).close()
        return {"healed": fault}

    def _produce(self, topic: str, count: int = 1000, **settings: Any) -> dict[str, int]:
        sent = self._lab.produce(topic, count, **settings)
        return {"acked": sent.acked, "failed": sent.failed, "unknown": sent.unknown}

    def _count(self, topic: str, acked: list[str], by: str = "key") -> dict[str, Any]:
        return asdict(self._lab.count(topic, acked, by))

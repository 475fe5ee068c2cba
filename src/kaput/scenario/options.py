"""Options of faults: which fault takes which keys, and their defaults.

In the file, options are keys of the step. Formats of values: values.py; fields: steps.py; checks against the
rest of the scenario: checks/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from kaput.core import NEWEST_KAFKA

Direction = Literal["both", "in", "out"]
How = Literal["drop", "reject"]
Side = Literal["both", "target", "others"]
What = Literal["delay", "drop-request", "drop-response", "disconnect", "error", "duplicate"]

# Keys of each fault, with defaults as written in the file. A fault that is missing here takes none.
OPTIONS: dict[str, dict[str, Any]] = {
    "isolate": {"how": "drop", "from": None},  # from: only for a whole cluster
    "cut": {"from": "all-nodes", "direction": "both", "how": "drop"},
    "partition": {"clients-with": "both", "how": "drop"},
    "flap": {"from": "all-nodes", "direction": "both", "how": "drop", "down": "5s", "up": "5s"},
    "loss": {"from": "everybody", "direction": "both", "percent": 10},
    "reset": {"from": "everybody"},
    "bandwidth": {"rate": "12mbit", "direction": "both"},
    "delay": {"from": "everybody", "delay": "250ms", "jitter": "50ms"},
    "cpu-pressure": {"percent": 20},
    "clock-skew": {"offset": "5m"},
    "memory-pressure": {"page-cache-mb": 32},
    "protocol": {
        "from": "clients",
        "api": None,
        "what": "delay",
        "delay": None,
        "nth": None,
        "share": None,
        "error": None,
    },
    "slow": {"processing": "100ms"},
    "resize": {"partitions": 6},
    "delete-records": {"committed-by": None},
    "grow": {"brokers": 1},
    "reassign": {"replication-factor": 3},
    "rolling-upgrade": {"kafka": NEWEST_KAFKA},
    "command": {"timeout": "30s"},
}
# Faults on members of groups only, and faults on members or nodes; all others are on nodes.
MEMBER_FAULTS = frozenset({"join", "leave", "slow"})
NODE_AND_MEMBER_FAULTS = frozenset({"kill", "stop", "pause"})
PRODUCER_FAULTS = ("pause", "kill")  # node faults that can also hit producers
# Faults on the disks of brokers; of these, those that need a file system that can be frozen or made to fail.
DISK_FAULTS = frozenset({"disk-full", "disk-stall", "disk-error"})
EXT4_FAULTS = DISK_FAULTS - {"disk-full"}
STORE_FAULTS = ("kill", "pause", "disk-full")  # node faults that can also hit stores
RESIZE, DELETE_RECORDS, RECREATE = "resize", "delete-records", "recreate"
TOPIC_FAULTS = frozenset({RESIZE, DELETE_RECORDS, RECREATE})  # these hit a topic
CLUSTER_CHANGES = frozenset({"grow", "reassign", "rolling-upgrade"})  # these change the cluster as a whole
# Faults on all nodes of one of several clusters, and on a mirror: its process, or its links to both clusters.
WHOLE_CLUSTER_FAULTS = (
    "noop", "kill", "stop", "pause", "isolate", "cut", "flap", "loss", "reset", "bandwidth", "delay"
)  # fmt: skip
MIRROR_FAULTS = ("kill", "stop", "pause", "cut", "loss", "bandwidth")
PROTOCOL_FAULTS = frozenset({"protocol"})  # these need a proxy in front of the brokers (cluster.proxies)
COMMAND_FAULTS = frozenset({"command"})  # performed by command lines in the scenario
COMMANDS = ("inject", "heal", "prove")  # their additional keys
# These need a network of kaput's own (cluster.network: namespaces).
NETWORK_FAULTS = frozenset({"isolate", "cut", "partition", "flap", "loss", "reset", "bandwidth", "delay"})


@dataclass(frozen=True)
class Options:
    """The options of a step. Options that its fault does not take have unused defaults."""

    from_: tuple[str, ...] = ()
    direction: Direction = "both"
    how: How = "drop"
    clients_with: Side = "both"
    percent: float = 0.0
    rate: str = ""  # a number and kbit, mbit or gbit
    delay: int = 0  # ms
    jitter: int = 0  # ms
    up: int = 0  # ms
    down: int = 0  # ms
    offset: int = 0  # ms
    page_cache_mb: int = 0
    api: str = ""  # Kafka's name of a request
    what: What = "delay"
    nth: int = 0  # 0: not only one
    share: float = 100.0  # percent
    error: str = ""  # Kafka's name of an error
    processing: int = 0  # ms
    partitions: int = 0
    committed_by: str = ""  # a group; empty: everything
    brokers: int = 0
    replication_factor: int = 0
    kafka: str = ""
    inject: str = ""  # a command line, as are the next two; none: empty
    heal: str = ""
    prove: str = ""
    timeout: int = 0  # ms


def with_defaults(step: Any) -> Any:
    """A step of the file with defaults for missing or null options of its fault; anything that is not a step
    is returned unchanged.
    """
    if not isinstance(step, dict):
        return step
    fault = step.get("fault")
    defaults = OPTIONS.get(fault, {}) if isinstance(fault, str) else {}
    return {**step, **{key: value for key, value in defaults.items() if step.get(key) is None}}

"""Options of faults in addition to their target: which fault takes which key, and the defaults.

The keys stand flat in a fault's step in the file. What a value may be is in values.py, where the keys are in
model.py; what must agree with the rest of the scenario in checks/scenario.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

NEWEST_KAFKA = "4.3.1"  # of those that kaput comes with
Direction = Literal["both", "in", "out"]
How = Literal["drop", "reject"]
Side = Literal["both", "target", "others"]
What = Literal["delay", "drop-request", "drop-response", "disconnect", "error", "duplicate"]

# By fault, the keys that it takes, with their defaults in the words of the file. A fault that is not here
# takes none.
OPTIONS: dict[str, dict[str, Any]] = {
    "isolate": {"how": "drop", "from": None},  # from: where it hits a whole cluster
    "cut": {"from": "all-nodes", "direction": "both", "how": "drop"},
    "partition": {"clients-with": "both", "how": "drop"},
    "flap": {"from": "all-nodes", "direction": "both", "how": "drop", "down": "5s", "up": "5s"},
    "loss": {"from": "everybody", "direction": "both", "percent": 10},
    "reset": {"from": "everybody"},
    "bandwidth": {"rate": "12mbit", "direction": "both"},
    "delay": {"from": "everybody", "delay": "250ms", "jitter": "50ms"},
    "cpu-pressure": {"percent": 20},
    "clock-skew": {"offset": "5m"},
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
# These hit members of groups alone, and these members as well as nodes; all others hit nodes.
MEMBER_FAULTS = frozenset({"join", "leave", "slow"})
FAULTS_OF_BOTH = frozenset({"kill", "stop", "pause"})
PRODUCER_FAULTS = ("pause", "kill")  # of those that hit nodes, these hit producers as well
DISK_FAULTS = frozenset(
    {"disk-stall", "disk-error"}
)  # these need a file system that can be frozen or made to fail
STORE_FAULTS = ("kill", "pause", "disk-full")  # and stores
RESIZE, DELETE_RECORDS, RECREATE = "resize", "delete-records", "recreate"
TOPIC_FAULTS = frozenset({RESIZE, DELETE_RECORDS, RECREATE})  # these hit a topic
CLUSTER_FAULTS = frozenset({"grow", "reassign", "rolling-upgrade"})  # these change the cluster as a whole
# These hit every node of one of several clusters, and these a mirror: its process, or its link to both.
SEVERAL_FAULTS = (
    "noop", "kill", "stop", "pause", "isolate", "cut", "flap", "loss", "reset", "bandwidth", "delay"
)  # fmt: skip
MIRROR_FAULTS = ("kill", "stop", "pause", "cut", "loss", "bandwidth")
PROTOCOL_FAULTS = frozenset({"protocol"})  # these need a proxy in front of the brokers (cluster.proxies)
COMMAND_FAULTS = frozenset({"command"})  # these are done by command lines of the scenario's own
COMMANDS = ("inject", "heal", "prove")  # which they take in addition to their options
SYSTEM_FAULTS = frozenset({"cpu-pressure", "clock-skew"})  # these are about a node's process alone
# These need a network of kaput's own.
NETWORK_FAULTS = frozenset(OPTIONS).difference(
    MEMBER_FAULTS, TOPIC_FAULTS, CLUSTER_FAULTS, PROTOCOL_FAULTS, COMMAND_FAULTS, SYSTEM_FAULTS
)


@dataclass(frozen=True)
class Options:
    """A step's options as faults read them; what a fault does not take has a value that it never reads."""

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
    """A step of the file with the defaults of its fault's options, where it has no value or null; anything
    that is no step as it is.
    """
    if not isinstance(step, dict):
        return step
    fault = step.get("fault")
    defaults = OPTIONS.get(fault, {}) if isinstance(fault, str) else {}
    return {**step, **{key: value for key, value in defaults.items() if step.get(key) is None}}

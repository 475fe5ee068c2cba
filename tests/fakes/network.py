"""A double of the network: nodes reach each other, but for the rules in their namespaces."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kaput.cluster.network.interface import Process
from kaput.errors import LabError

CLIENTS = "10.77.255.254"


@dataclass
class FakeNetwork:
    """`works` False: rules are taken and do nothing. `deaf`: nodes that nobody reaches in any case."""

    works: bool = True
    counts: bool = True
    stays: bool = False  # rules that were taken away go on working
    deaf: set[int] = field(default_factory=set)
    clients: str = CLIENTS
    tables: dict[int, dict[str, str]] = field(default_factory=dict)
    ghosts: list[tuple[int, str]] = field(default_factory=list)

    def host(self, node: int) -> str:
        return f"10.77.0.{node}"

    def run(self, node: int | None, command: Sequence[str], text: str = "") -> str:
        assert node is not None
        tables = self.tables.setdefault(node, {})
        words = list(command[1:])
        if words == ["-f", "-"]:
            self._load(node, text)
        elif words[:2] == ["list", "tables"]:
            return "".join(f"table ip {name}\n" for name in tables)
        elif words[:2] == ["list", "counters"]:
            if words[-1] not in tables:
                raise LabError("no such table")
            packets = 7 if self.counts else 0
            return f"table ip x {{\n\tcounter in_dropped {{\n\t\tpackets {packets} bytes 1\n\t}}\n}}\n"
        return ""

    def socket(self, node: int | None, kind: int = socket.SOCK_STREAM) -> Any:
        return FakeSocket(self, node)

    def reaches(self, source: int | None, target: int) -> bool:
        """Whether a connection is made: neither end has a rule that names the other."""
        if target in self.deaf:
            return False
        here = self.clients if source is None else self.host(source)
        rules = [(target, text) for text in self.tables.get(target, {}).values()]
        rules += [ghost for ghost in self.ghosts if ghost[0] == target]
        return not (self.works and any(here in text for _, text in rules))

    def _load(self, node: int, script: str) -> None:
        for name in re.findall(r"delete table ip (\w+)", script):
            text = self.tables[node].pop(name, None)
            if self.stays and text:
                self.ghosts.append((node, text))
        for name, body in re.findall(r"table ip (\w+) \{\n(.*)\n\}", script, flags=re.S):
            self.tables[node][name] = body

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        return list(command)

    def join(self, nodes: Sequence[int]) -> None: ...

    def ports(self, count: int) -> list[int]:
        return [9092 + i for i in range(count)]

    def link(self, node: int) -> str:
        return f"kaput{node}"

    def spawn(
        self, node: int, command: Sequence[str], name: str, on_exit: Callable[[int], None] | None = None
    ) -> Process:
        raise LabError("nothing can be started here")

    def namespace(self, node: int) -> int:
        return 1

    def close(self) -> None: ...


@dataclass
class FakeSocket:
    """Connects where the network lets it."""

    network: FakeNetwork
    source: int | None

    def settimeout(self, seconds: float) -> None: ...

    def connect(self, endpoint: tuple[str, int]) -> None:
        if not self.network.reaches(self.source, int(endpoint[0].rpartition(".")[2])):
            raise TimeoutError

    def close(self) -> None: ...

"""What a network is to the rest: addresses and ports for nodes, and the way into a node's own namespace.

A new network is a file beside this one and a line in `lab.py`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Protocol


class Network(Protocol):
    """The network of one cluster, from `join` to `close`."""

    @property
    def clients(self) -> str:
        """The address that nodes see clients come from."""

    def join(self, nodes: Sequence[int]) -> None:
        """Makes the places of these nodes, before anything starts there. Raises LabError."""

    def host(self, node: int) -> str:
        """A node's own address."""

    def ports(self, count: int) -> list[int]:
        """That many ports on which nodes can listen; no two are equal. Raises LabError."""

    def command(self, node: int, command: Sequence[str]) -> list[str]:
        """The command that runs `command` at the node's place, as one and the same process."""

    def run(self, node: int | None, command: Sequence[str], text: str = "") -> str:
        """Runs a short command there (None: where the clients are) with `text` as its input; its output.

        Raises LabError with what it said when it fails.
        """

    def link(self, node: int) -> str:
        """The clients' end of the node's link, for commands that run where the clients are."""

    def socket(self, node: int | None, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """A fresh IPv4 socket, TCP unless `kind` says otherwise, where the node is (None: the clients)."""

    def spawn(
        self, node: int, command: Sequence[str], name: str, on_exit: Callable[[int], None] | None = None
    ) -> Process:
        """Starts a helper at the node's place; it ends with the cluster at the latest. Raises LabError."""

    def namespace(self, node: int) -> int:
        """A process in the node's namespace, for what /proc tells of it."""

    def close(self) -> None:
        """Takes everything away again."""


class Process(Protocol):
    """A helper that was started."""

    @property
    def running(self) -> bool:
        """Whether it has not ended."""

    def kill(self) -> int:
        """SIGKILL; the moment (ns) at which it was gone."""

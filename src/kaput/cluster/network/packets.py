"""Rules of a packet filter: chains of rules for the packets of some peers.

Faults write them (faults/rules.py), a node's packet filter applies them (interface.py). IPv4 only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Hook = Literal["input", "output", "redirect-input", "redirect-output"]
"""Where a chain applies: to packets to or from the node. Redirects apply earlier."""

Verdict = Literal["", "accept", "drop", "reset"]
"""The fate of a packet. "": left to later rules. `reset`: dropped, and answered with a TCP reset."""

SHARE_OF = 10_000


@dataclass(frozen=True)
class Rule:
    """What happens to the chain's packets that match all conditions given here."""

    verdict: Verdict = ""
    counter: str = ""  # counts packets under this name
    resets: bool = False  # only TCP segments with RST
    begins: bool = False  # only TCP segments with SYN and none of ACK, RST, FIN
    tcp: bool = False  # only TCP
    share: int | None = None  # a random share, in units of 1/SHARE_OF
    unless_mark: int | None = None  # only packets without this mark
    redirect: int | None = None  # instead of a verdict: redirects to this port of the node


@dataclass(frozen=True)
class Chain:
    """Rules, in order, for packets from the peers to the node (input), or from the node to them (output).

    Packets of others, and packets without a verdict, pass.
    """

    name: str
    hook: Hook
    peers: tuple[str, ...]  # IPv4 addresses, at least one
    rules: tuple[Rule, ...]

"""Rules of a packet filter: chains of rules for the packets of some peers.

Faults write them (faults/rules.py), a node's packet filter applies them (interface.py). IPv4 only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Hook = Literal["input", "output", "redirect-input", "redirect-output"]
"""Where packets meet a chain: those that come to the node, or go from it; to redirect them, before that."""

Verdict = Literal["", "accept", "drop", "reset"]
"""What becomes of a packet; "" leaves that to the rules that follow. `reset` answers TCP with a reset."""

SHARE_OF = 10_000


@dataclass(frozen=True)
class Rule:
    """What happens to the chain's packets that match all conditions given here."""

    verdict: Verdict = ""
    counter: str = ""  # counts them under this name
    resets: bool = False  # TCP segments with RST
    begins: bool = False  # TCP segments with SYN and none of ACK, RST, FIN
    tcp: bool = False  # TCP
    share: int | None = None  # so many of SHARE_OF, drawn at random
    unless_mark: int | None = None  # packets without this mark
    redirect: int | None = None  # the verdict: to this port of the node's own


@dataclass(frozen=True)
class Chain:
    """Rules for what the peers send to the node (input), or for what it sends to them (output), in order.

    Packets of others, and those that no rule decides about, pass.
    """

    name: str
    hook: Hook
    peers: tuple[str, ...]  # IPv4 addresses, at least one
    rules: tuple[Rule, ...]

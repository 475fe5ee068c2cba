"""Rules of the packet filter in the kernel's words: a rule becomes the expressions that a packet passes.

The expressions are documented in the kernel's linux/netfilter/nf_tables.h. Values are as they lie in memory
or in the packet: the kernel compares bytes. Not here: how they get into the kernel (packet_filter.py).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from kaput.cluster.network.packets import SHARE_OF, Chain, Rule

Expression = dict[str, Any]

_NETWORK, _TRANSPORT = 1, 2  # headers of a packet
_SOURCE, _DESTINATION = 12, 16  # where the addresses are in an IPv4 header
_FLAGS = 13  # where the flags are in a TCP header
_FIN, _SYN, _RST, _ACK = 1, 2, 4, 16
_TCP = 6
_META_MARK, _META_PROTOCOL = 3, 16
_EQUAL, _UNEQUAL, _LESS = 0, 1, 2
_RESULT, _WORK = 0, 1  # registers: what becomes of the packet, and what is looked at
_DROP, _ACCEPT = 0, 1
_RANDOM, _TO_NETWORK_ORDER, _TCP_RESET = 1, 1, 1
_SHORTER = {"numgen": "NG", "payload": "PAYLOAD"}  # the names of numgen's attributes begin with NFTA_NG_


def expressions(chain: Chain, rule: Rule, peers: str) -> list[Expression]:
    """All of a rule, in order: whose packets, which of them, then what. `peers` names the set of them."""
    return [*_match_peers(chain, peers), *_match(rule), *_act(rule)]


def _match_peers(chain: Chain, peers: str) -> Iterator[Expression]:
    comes = chain.hook in ("input", "redirect-input")
    yield _load(_NETWORK, _SOURCE if comes else _DESTINATION, 4)
    yield _expression("lookup", SET=peers, SREG=_WORK)


def _match(rule: Rule) -> Iterator[Expression]:
    if rule.unless_mark is not None:
        yield _expression("meta", KEY=_META_MARK, DREG=_WORK)
        yield _compare(_UNEQUAL, struct.pack("=I", rule.unless_mark))
    if rule.tcp or rule.resets or rule.begins:
        yield _expression("meta", KEY=_META_PROTOCOL, DREG=_WORK)
        yield _compare(_EQUAL, bytes([_TCP]))
    if rule.resets:
        yield from _match_flags(_RST, _RST)
    if rule.begins:
        yield from _match_flags(_FIN | _SYN | _RST | _ACK, _SYN)
    if rule.share is not None:
        yield _expression("numgen", DREG=_WORK, MODULUS=SHARE_OF, TYPE=_RANDOM, OFFSET=0)
        # Bytes are compared from the first on, so that numbers must begin with their greatest.
        yield _expression("byteorder", SREG=_WORK, DREG=_WORK, OP=_TO_NETWORK_ORDER, LEN=4, SIZE=4)
        yield _compare(_LESS, struct.pack("!I", rule.share))


def _act(rule: Rule) -> Iterator[Expression]:
    if rule.counter:
        yield _expression("counter", BYTES=0, PACKETS=0)
    if rule.redirect is not None:
        yield _expression("immediate", DREG=_WORK, DATA=_value(struct.pack("!H", rule.redirect)))
        yield _expression("redir", REG_PROTO_MIN=_WORK)
    elif rule.verdict == "reset":
        yield _expression("reject", TYPE=_TCP_RESET, ICMP_CODE=0)
    elif rule.verdict:
        code = {"drop": _DROP, "accept": _ACCEPT}[rule.verdict]
        verdict = {"attrs": [("NFTA_DATA_VERDICT", {"attrs": [("NFTA_VERDICT_CODE", code)]})]}
        yield _expression("immediate", DREG=_RESULT, DATA=verdict)


def _match_flags(of: int, these: int) -> Iterator[Expression]:
    yield _load(_TRANSPORT, _FLAGS, 1)
    mask, nothing = _value(bytes([of])), _value(bytes(1))
    yield _expression("bitwise", SREG=_WORK, DREG=_WORK, LEN=1, MASK=mask, XOR=nothing)
    yield _compare(_EQUAL, bytes([these]))


def _load(header: int, offset: int, length: int) -> Expression:
    return _expression("payload", DREG=_WORK, BASE=header, OFFSET=offset, LEN=length)


def _compare(how: int, value: bytes) -> Expression:
    return _expression("cmp", SREG=_WORK, OP=how, DATA=_value(value))


def _value(value: bytes) -> dict[str, Any]:
    return {"attrs": [("NFTA_DATA_VALUE", value)]}


def _expression(name: str, **values: Any) -> Expression:
    prefix = f"NFTA_{_SHORTER.get(name, name.upper())}_"
    attributes = [(prefix + key, value) for key, value in values.items()]
    return {"attrs": [("NFTA_EXPR_NAME", name), ("NFTA_EXPR_DATA", {"attrs": attributes})]}

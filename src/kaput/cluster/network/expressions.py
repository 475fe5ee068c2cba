"""Translates rules of the packet filter into nf_tables expressions.

The expressions are documented in the kernel's linux/netfilter/nf_tables.h. Values have the
byte order of memory or of the packet: the kernel compares bytes. Not here: sending them (packet_filter.py).
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
_VERDICT, _DATA = 0, 1  # registers: the verdict, and the data to compare
_DROP, _ACCEPT = 0, 1
_RANDOM, _TO_NETWORK_ORDER, _TCP_RESET = 1, 1, 1
_ATTRIBUTE_PREFIXES = {
    "numgen": "NG",
    "payload": "PAYLOAD",
}  # the names of numgen's attributes begin with NFTA_NG_


def expressions(chain: Chain, rule: Rule, peers: str) -> list[Expression]:
    """A rule's expressions: match the peers, match the packets, act. `peers`: the name of their set."""
    return [*_match_peers(chain, peers), *_match(rule), *_apply(rule)]


def _match_peers(chain: Chain, peers: str) -> Iterator[Expression]:
    incoming = chain.hook in ("input", "redirect-input")
    yield _load(_NETWORK, _SOURCE if incoming else _DESTINATION, 4)
    yield _expression("lookup", SET=peers, SREG=_DATA)


def _match(rule: Rule) -> Iterator[Expression]:
    if rule.unless_mark is not None:
        yield _expression("meta", KEY=_META_MARK, DREG=_DATA)
        yield _compare(_UNEQUAL, struct.pack("=I", rule.unless_mark))
    if rule.tcp or rule.resets or rule.begins:
        yield _expression("meta", KEY=_META_PROTOCOL, DREG=_DATA)
        yield _compare(_EQUAL, bytes([_TCP]))
    if rule.resets:
        yield from _match_flags(_RST, _RST)
    if rule.begins:
        yield from _match_flags(_FIN | _SYN | _RST | _ACK, _SYN)
    if rule.share is not None:
        yield _expression("numgen", DREG=_DATA, MODULUS=SHARE_OF, TYPE=_RANDOM, OFFSET=0)
        # Bytes are compared in order, so the number must be big-endian.
        yield _expression("byteorder", SREG=_DATA, DREG=_DATA, OP=_TO_NETWORK_ORDER, LEN=4, SIZE=4)
        yield _compare(_LESS, struct.pack("!I", rule.share))


def _apply(rule: Rule) -> Iterator[Expression]:
    if rule.counter:
        yield _expression("counter", BYTES=0, PACKETS=0)
    if rule.redirect is not None:
        yield _expression("immediate", DREG=_DATA, DATA=_value(struct.pack("!H", rule.redirect)))
        yield _expression("redir", REG_PROTO_MIN=_DATA)
    elif rule.verdict == "reset":
        yield _expression("reject", TYPE=_TCP_RESET, ICMP_CODE=0)
    elif rule.verdict:
        code = {"drop": _DROP, "accept": _ACCEPT}[rule.verdict]
        verdict = {"attrs": [("NFTA_DATA_VERDICT", {"attrs": [("NFTA_VERDICT_CODE", code)]})]}
        yield _expression("immediate", DREG=_VERDICT, DATA=verdict)


def _match_flags(of: int, these: int) -> Iterator[Expression]:
    yield _load(_TRANSPORT, _FLAGS, 1)
    mask, nothing = _value(bytes([of])), _value(bytes(1))
    yield _expression("bitwise", SREG=_DATA, DREG=_DATA, LEN=1, MASK=mask, XOR=nothing)
    yield _compare(_EQUAL, bytes([these]))


def _load(header: int, offset: int, length: int) -> Expression:
    return _expression("payload", DREG=_DATA, BASE=header, OFFSET=offset, LEN=length)


def _compare(how: int, value: bytes) -> Expression:
    return _expression("cmp", SREG=_DATA, OP=how, DATA=_value(value))


def _value(value: bytes) -> dict[str, Any]:
    return {"attrs": [("NFTA_DATA_VALUE", value)]}


def _expression(name: str, **values: Any) -> Expression:
    prefix = f"NFTA_{_ATTRIBUTE_PREFIXES.get(name, name.upper())}_"
    attributes = [(prefix + key, value) for key, value in values.items()]
    return {"attrs": [("NFTA_EXPR_NAME", name), ("NFTA_EXPR_DATA", {"attrs": attributes})]}

"""The kernel's packet filter (nf_tables) in the namespace of one process: creates, lists and removes tables.

Each change is one transaction, so that no packet ever meets half a table.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from kaput.cluster.network.interface import SHARE_OF, Chain, PacketRule
from kaput.cluster.network.netlink import Netlink
from kaput.errors import LabError

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


def expressions(chain: Chain, rule: PacketRule, peers: str) -> list[Expression]:
    """A rule's expressions: match the peers, match the packets, act. `peers`: the name of their set."""
    return [*_match_peers(chain, peers), *_match(rule), *_apply(rule)]


def _match_peers(chain: Chain, peers: str) -> Iterator[Expression]:
    incoming = chain.hook in ("input", "redirect-input")
    yield _load(_NETWORK, _SOURCE if incoming else _DESTINATION, 4)
    yield _expression("lookup", SET=peers, SREG=_DATA)


def _match(rule: PacketRule) -> Iterator[Expression]:
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


def _apply(rule: PacketRule) -> Iterator[Expression]:
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


_NETLINK_NETFILTER = 12
_IPV4 = 2
_BEGIN, _COMMIT = 0x10, 0x11
_HOOKS = {  # type, number and priority of the kernel's hook
    "input": ("filter", 1, 0),
    "output": ("filter", 3, 0),
    "redirect-input": ("nat", 0, -100),  # prerouting
    "redirect-output": ("nat", 3, -100),
}
_ADDRESS_TYPE = 7  # nft's number for ipv4_addr; the kernel only stores it


class KernelFilter:
    """The packet filter in the namespace of process `pid` (None: kaput's own), until it is closed: tables of
    chains. Everything here raises LabError with the kernel's message.
    """

    def __init__(self, pid: int | None) -> None:
        self._netlink = Netlink(pid, _NETLINK_NETFILTER)

    def put(self, table: str, chains: Sequence[Chain]) -> None:
        """Creates the table, and replaces one of the same name, in one transaction."""
        self._change([*_removal(table), _table("NEW", table), *_contents(table, chains)])

    def remove(self, table: str) -> None:
        """Removes it, if it exists."""
        self._change(_removal(table))

    def tables(self) -> set[str]:
        """The names of existing tables."""
        return {table.get_attr("NFTA_TABLE_NAME") for table in self._list("table", [])}

    def counters(self, table: str) -> dict[str, int]:
        """Packets counted so far, by the counter's name, which is its rule's comment. LabError if there is no
        such table.
        """
        if table not in self.tables():
            raise LabError(f"the packet filter has no table {table}")
        found: dict[str, int] = {}
        for rule in self._list("rule", [("NFTA_RULE_TABLE", table)]):
            name, packets = _counter_of(rule)
            if name:
                found[name] = found.get(name, 0) + packets
        return found

    def close(self) -> None:
        """Closes the socket; tables stay."""
        self._netlink.close()

    def _change(self, messages: Sequence[Any]) -> None:
        try:
            self._netlink.change([_transaction_message(_BEGIN), *messages, _transaction_message(_COMMIT)])
        except LabError as error:
            raise LabError(f"the packet filter refused: {error}") from None

    def _list(self, what: str, attributes: list[tuple[str, Any]]) -> list[Any]:
        from pyroute2.netlink import NLM_F_DUMP

        kind, get, new = _kind(what), _number("GET", what), _number("NEW", what)
        try:
            return self._netlink.look(_message(kind, get, NLM_F_DUMP, attributes), {new: kind})
        except LabError as error:
            raise LabError(f"the packet filter cannot be read: {error}") from None


def _removal(table: str) -> list[Any]:
    return [_table("NEW", table), _table("DEL", table)]


def _table(verb: str, name: str) -> Any:
    return _object(verb, "table", [("NFTA_TABLE_NAME", name)])


def _contents(table: str, chains: Sequence[Chain]) -> Iterator[Any]:
    for number, chain in enumerate(chains, 1):
        peers = f"{chain.name}_peers"
        yield from _set(table, peers, number, chain.peers)
        kind, hook, priority = _HOOKS[chain.hook]
        where = {"attrs": [("NFTA_HOOK_HOOKNUM", hook), ("NFTA_HOOK_PRIORITY", priority)]}
        named = [("NFTA_CHAIN_TABLE", table), ("NFTA_CHAIN_NAME", chain.name)]
        yield _object("NEW", "chain", [*named, ("NFTA_CHAIN_HOOK", where), ("NFTA_CHAIN_TYPE", kind)])
        for rule in chain.rules:
            attributes: list[tuple[str, Any]] = [
                ("NFTA_RULE_TABLE", table),
                ("NFTA_RULE_CHAIN", chain.name),
                ("NFTA_RULE_EXPRESSIONS", expressions(chain, rule, peers)),
            ]
            if rule.counter:
                attributes.append(("NFTA_RULE_USERDATA", rule.counter))
            yield _object("NEW", "rule", attributes)


def _set(table: str, name: str, number: int, addresses: Sequence[str]) -> Iterator[Any]:
    from pyroute2.netlink.nfnetlink.nftsocket import NFT_MSG_NEWSETELEM, nft_set_elem_list_msg

    yield _object(
        "NEW",
        "set",
        [
            ("NFTA_SET_TABLE", table),
            ("NFTA_SET_NAME", name),
            ("NFTA_SET_FLAGS", ()),
            ("NFTA_SET_KEY_TYPE", _ADDRESS_TYPE),
            ("NFTA_SET_KEY_LEN", 4),
            ("NFTA_SET_ID", number),
        ],
    )
    keys = [{"attrs": [("NFTA_DATA_VALUE", socket.inet_aton(address))]} for address in addresses]
    attributes = [
        ("NFTA_SET_ELEM_LIST_TABLE", table),
        ("NFTA_SET_ELEM_LIST_SET", name),
        ("NFTA_SET_ELEM_LIST_ELEMENTS", [{"attrs": [("NFTA_SET_ELEM_KEY", key)]} for key in keys]),
    ]
    yield _message(nft_set_elem_list_msg, _nftables_type(NFT_MSG_NEWSETELEM), _create_flags(), attributes)


def _counter_of(rule: Any) -> tuple[str, int]:
    """The counter's name ("" for none) and its packets."""
    comment = rule.get_attr("NFTA_RULE_USERDATA")
    for expression in rule.get_attr("NFTA_RULE_EXPRESSIONS") or []:
        if comment is not None and expression.get_attr("NFTA_EXPR_NAME") == "counter":
            counter = expression.get_attr("NFTA_EXPR_DATA")
            return str(comment), int(counter.get_attr("NFTA_COUNTER_PACKETS"))
    return "", 0


def _object(verb: str, what: str, attributes: Sequence[tuple[str, Any]]) -> Any:
    return _message(_kind(what), _number(verb, what), _create_flags() if verb == "NEW" else 0, attributes)


def _kind(what: str) -> Any:
    from pyroute2.netlink.nfnetlink import nftsocket

    return getattr(nftsocket, f"nft_{what}_msg")


def _number(verb: str, what: str) -> int:
    from pyroute2.netlink.nfnetlink import nftsocket

    return _nftables_type(getattr(nftsocket, f"NFT_MSG_{verb}{what.upper()}"))


def _nftables_type(number: int) -> int:
    from pyroute2.netlink.nfnetlink import NFNL_SUBSYS_NFTABLES

    return int(NFNL_SUBSYS_NFTABLES << 8 | number)


def _create_flags() -> int:
    from pyroute2.netlink import NLM_F_APPEND, NLM_F_CREATE

    return int(NLM_F_CREATE | NLM_F_APPEND)


def _message(kind: Any, number: int, flags: int, attributes: Sequence[tuple[str, Any]]) -> Any:
    from pyroute2.netlink import NLM_F_ACK, NLM_F_REQUEST

    message = kind()
    message["header"]["type"] = number
    message["header"]["flags"] = NLM_F_REQUEST | NLM_F_ACK | flags
    message["nfgen_family"] = _IPV4
    message["attrs"] = list(attributes)
    return message


def _transaction_message(which: int) -> Any:
    from pyroute2.netlink import NLM_F_REQUEST
    from pyroute2.netlink.nfnetlink import NFNL_SUBSYS_NFTABLES, nfgen_msg

    message = nfgen_msg()
    message["header"]["type"] = which
    message["header"]["flags"] = NLM_F_REQUEST
    message["res_id"] = NFNL_SUBSYS_NFTABLES
    return message

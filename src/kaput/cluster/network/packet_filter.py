"""The kernel's packet filter (nf_tables) in the namespace of one process: creates, lists and removes tables.

Each change is one transaction, so that no packet ever meets half a table.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Any

from kaput.cluster.network.expressions import expressions
from kaput.cluster.network.netlink import Netlink
from kaput.cluster.network.packets import Chain
from kaput.errors import LabError

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
    """The packet filter in the namespace of process `pid` (None: kaput's own), until it is closed."""

    def __init__(self, pid: int | None) -> None:
        self._netlink = Netlink(pid, _NETLINK_NETFILTER)

    def put(self, table: str, chains: Sequence[Chain]) -> None:
        """Replaces the old table and creates the new one in one transaction."""
        self._change([*_removal(table), _table("NEW", table), *_contents(table, chains)])

    def remove(self, table: str) -> None:
        """Creates the table first if needed: deleting a missing table would fail."""
        self._change(_removal(table))

    def tables(self) -> set[str]:
        """All IPv4 tables."""
        return {found.get_attr("NFTA_TABLE_NAME") for found in self._list("table", [])}

    def counters(self, table: str) -> dict[str, int]:
        """The rules' counters; a counter's name is its rule's comment."""
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
    """The message that begins or commits a transaction."""
    from pyroute2.netlink import NLM_F_REQUEST
    from pyroute2.netlink.nfnetlink import NFNL_SUBSYS_NFTABLES, nfgen_msg

    message = nfgen_msg()
    message["header"]["type"] = which
    message["header"]["flags"] = NLM_F_REQUEST
    message["res_id"] = NFNL_SUBSYS_NFTABLES
    return message

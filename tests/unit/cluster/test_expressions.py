"""Rules in the kernel's words: nothing of them is lost on the way, and numbers are as it compares them."""

from __future__ import annotations

from typing import Any

import pytest
from pyroute2.netlink.nfnetlink.nftsocket import nft_rule_msg

from kaput.cluster.network.interface import Chain, Hook, PacketRule
from kaput.cluster.network.packet_filter import expressions

RULES = [
    PacketRule("drop", counter="dropped"),
    PacketRule("accept", resets=True),
    PacketRule("reset", tcp=True),
    PacketRule("drop", share=500),
    PacketRule(begins=True, unless_mark=7, redirect=20_001),
]


def told(rule: PacketRule, hook: Hook = "input") -> list[dict[str, Any]]:
    """The expressions of a rule about one peer."""
    return expressions(Chain("c", hook, ("10.77.0.2",), (rule,)), rule, "peers")


def names(expression: Any) -> tuple[str, set[str]]:
    """What an expression is, and the names of what it says."""
    name, data = (value for _, value in expression["attrs"])
    return name, {attribute[0] for attribute in data["attrs"]}


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_every_expression_survives_netlink_encoding(rule: PacketRule) -> None:
    """pyroute2 leaves out what it has no name for, without a word: all is there after a way through it."""
    expected = [names(expression) for expression in told(rule)]
    message = nft_rule_msg()
    message["attrs"] = [("NFTA_RULE_EXPRESSIONS", told(rule))]
    message.encode()
    read = nft_rule_msg(message.data)
    read.decode()
    assert [names(expression) for expression in read.get_attr("NFTA_RULE_EXPRESSIONS")] == expected


@pytest.mark.parametrize(
    ("hook", "offset"),
    [("input", 12), ("redirect-input", 12), ("output", 16), ("redirect-output", 16)],
)
def test_peer_is_matched_by_source_inbound_and_destination_outbound(hook: Hook, offset: int) -> None:
    """Where the source and the destination are in an IPv4 header."""
    first, second = told(PacketRule("drop"), hook)[:2]
    assert dict(first["attrs"][1][1]["attrs"])["NFTA_PAYLOAD_OFFSET"] == offset
    assert names(second)[0] == "lookup"


def test_loss_share_is_compared_in_network_byte_order() -> None:
    """The kernel compares bytes, so that both numbers are in the network's order."""
    words = [names(expression)[0] for expression in told(PacketRule("drop", share=500))]
    assert words == ["payload", "lookup", "numgen", "byteorder", "cmp", "immediate"]
    compared = dict(told(PacketRule("drop", share=500))[4]["attrs"][1][1]["attrs"])
    assert compared["NFTA_CMP_DATA"]["attrs"] == [("NFTA_DATA_VALUE", (500).to_bytes(4, "big"))]


def test_counter_comes_before_the_verdict() -> None:
    """What comes after a verdict is never reached."""
    words = [names(expression)[0] for expression in told(PacketRule("drop", counter="dropped"))]
    assert words.index("counter") < words.index("immediate")

"""Links between namespaces: a bridge in kaput's namespace, and a veth pair from it to each node."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from kaput.cluster.network.netns import run_in_netns
from kaput.errors import LabError

_T = TypeVar("_T")


def routing(pid: int | None, action: Callable[[Any], _T]) -> _T:
    """Returns `action(IPRoute)`, run in the namespace of process `pid` (None: kaput's own).

    Raises LabError with the kernel's message.
    """
    return run_in_netns(pid, lambda: _open(action))


def _open(action: Callable[[Any], _T]) -> _T:
    # Imported here, because it takes a quarter of a second.
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        with IPRoute(ext_ack=True) as route:
            return action(route)
    except (NetlinkError, OSError) as error:
        raise LabError(str(error.args[-1]) if error.args else str(error)) from None


BRIDGE = "kaput-bridge"
OWN_END = "eth0"
LOOPBACK = 1  # its interface index in any namespace
_PREFIX_LENGTH = 16


def raise_loopback(pid: int | None) -> None:
    """Brings up `lo` in the namespace of process `pid` (None: kaput's own). Raises LabError."""
    routing(pid, _raise_loopback)


def make_bridge(address: str) -> None:
    """Creates the bridge: the clients' side of every link. Raises LabError."""

    def make(route: Any) -> None:
        route.link("add", ifname=BRIDGE, kind="bridge")
        _raise(route, BRIDGE, address)

    routing(None, make)


def make_link(end: str, pid: int, address: str) -> None:
    """Links `end` on the bridge to the namespace of `pid`, which gets this address. Raises LabError."""

    def make(route: Any) -> None:
        peer = {"ifname": OWN_END, "net_ns_pid": pid}
        (bridge,) = route.link_lookup(ifname=BRIDGE)
        route.link("add", ifname=end, kind="veth", peer=peer)
        (index,) = route.link_lookup(ifname=end)
        route.link("set", index=index, master=bridge, state="up")

    def address_own_end(route: Any) -> None:
        _raise_loopback(route)
        _raise(route, OWN_END, address)

    routing(None, make)
    routing(pid, address_own_end)


def remove_links(names: Collection[str]) -> None:
    """Removes the links that exist, including their other ends."""

    def remove(route: Any) -> None:
        for name in names:
            for index in route.link_lookup(ifname=name):
                route.link("del", index=index)

    with contextlib.suppress(LabError):  # leftovers end with their namespace
        routing(None, remove)


def _raise_loopback(route: Any) -> None:
    route.link("set", index=LOOPBACK, state="up")


def _raise(route: Any, name: str, address: str) -> None:
    (index,) = route.link_lookup(ifname=name)
    route.addr("add", index=index, address=address, prefixlen=_PREFIX_LENGTH)
    route.link("set", index=index, state="up")

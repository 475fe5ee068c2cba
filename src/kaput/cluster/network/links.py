"""Links between namespaces: a bridge in kaput's namespace, and a veth pair from it to each node;
and their queueing disciplines."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

from kaput.cluster.network.interface import Queued
from kaput.cluster.network.netlink import run_in_netns
from kaput.errors import LabError

_T = TypeVar("_T")


def routing(pid: int | None, action: Callable[[Any], _T]) -> _T:
    """Returns `action(IPRoute)`, run in the namespace of `pid` (None: ours). Raises LabError."""
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


def raise_loopback() -> None:
    """Brings up `lo` in kaput's own namespace. Raises LabError."""
    routing(None, _raise_loopback)


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


_KINDS = ("tbf", "netem")
_ROOT = 0xFFFF_FFFF  # TC_H_ROOT
_COUNT_LIMIT = 1 << 32  # the kernel counts bytes, and the ticks to send them, in 32 bits
_TICKS_S = 15_625_000  # of 64 ns
_PACKETS = 1000  # that a delay queues at most; tc's default


@dataclass(frozen=True)
class KernelQueue:
    """The outgoing queue of one end of a link: of `name` in the namespace of process `pid` (None: kaput's
    own). Everything here raises LabError with the kernel's message.
    """

    pid: int | None
    name: str

    def limit(self, rate: float, burst: int, wait_ms: float) -> None:
        """Sends at most `rate` bits per second (a tbf: 1 kbit/s to 34 Gbit/s, less with smaller bursts) after
        the first `burst` bytes. Packets that would wait longer than `wait_ms` are dropped. LabError if there
        already is a limit or delay.
        """
        bytes_s = rate / 8
        held = bytes_s * wait_ms / 1000 + burst
        if bytes_s < 1 or max(bytes_s, held, burst / bytes_s * _TICKS_S) >= _COUNT_LIMIT:
            raise LabError(f"{rate:g} bits per second is not a rate that the kernel supports")
        self._add("tbf", rate=bytes_s, burst=burst, limit=int(held))

    def delay(self, delay_ms: float, jitter_ms: float) -> None:
        """Delays every packet by `delay_ms` ± `jitter_ms` (netem). LabError as for `limit`."""
        self._add("netem", delay=round(delay_ms * 1000), jitter=round(jitter_ms * 1000), limit=_PACKETS)

    def clear(self) -> None:
        """Removes the limit or delay. LabError if there is none."""
        self._on_link(lambda route, index: route.tc("del", index=index, parent=_ROOT))

    def state(self) -> Queued:
        """The active limit or delay, and its counters."""

        def look(route: Any, index: int) -> Queued:
            for queue in route.get_qdiscs(index=index):
                kind = queue.get_attr("TCA_KIND")
                if queue["index"] == index and kind in _KINDS:
                    stats = queue.get_attr("TCA_STATS")
                    return Queued(kind, stats["bytes"], stats["overlimits"])
            return Queued("")

        found: Queued = self._on_link(look)
        return found

    def _add(self, kind: str, **options: Any) -> None:
        self._on_link(lambda route, index: route.tc("add", kind, index=index, parent=_ROOT, **options))

    def _on_link(self, action: Any) -> Any:
        def act(route: Any) -> Any:
            links = route.link_lookup(ifname=self.name)
            if not links:
                raise LabError("there is no such link")
            return action(route, links[0])

        try:
            return routing(self.pid, act)
        except LabError as error:
            raise LabError(f"the queue of link {self.name}: {error}") from None

"""Links, addresses and queues through pyroute2's IPRoute, in the namespace of any process."""

from __future__ import annotations

from collections.abc import Callable
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

"""Admin's requests to ZooKeeper nodes: who the controller is, and whether a node answers."""

from __future__ import annotations

from collections.abc import Mapping

from kaput.cluster.admin.broadcast import ANSWER_TIMEOUT_S, Broadcaster
from kaput.cluster.wire import Endpoint
from kaput.cluster.zookeeper.znodes import read_znode
from kaput.errors import LabError, UnknownFormat

_CONTROLLER = "/controller"


class Ensemble:
    """Requests to the ZooKeeper nodes; falsy in KRaft mode, where there are none."""

    def __init__(self, endpoints: Mapping[int, Endpoint], broadcaster: Broadcaster) -> None:
        self._endpoints, self._broadcaster = endpoints, broadcaster

    def __bool__(self) -> bool:
        return bool(self._endpoints)

    def __contains__(self, node: int) -> bool:
        return node in self._endpoints

    def ids(self) -> list[int]:
        """Their node ids. Raises LabError in KRaft mode."""
        if not self._endpoints:
            raise LabError("there is no ZooKeeper in KRaft mode")
        return sorted(self._endpoints)

    def ask(self, node: int) -> None:
        """Raises Unanswered unless this node answers."""
        read_znode(self._endpoints[node], _CONTROLLER, ANSWER_TIMEOUT_S)

    def controller_id(self) -> int:
        """The broker that is registered as the controller. Raises LabError if there is none."""
        asked = [
            self._broadcaster.submit(read_znode, endpoint, _CONTROLLER, ANSWER_TIMEOUT_S)
            for endpoint in self._endpoints.values()
        ]
        found = [future.result() for future in asked if future.exception() is None]
        # A node may lag behind the others: the latest write counts.
        newest = max((node for node in found if node), key=lambda node: node.changed_zxid, default=None)
        if newest is None:
            raise LabError("ZooKeeper has no controller" if found else "no ZooKeeper node answered")
        try:
            return int(newest.value["brokerid"])
        except (KeyError, TypeError, ValueError):
            raise UnknownFormat(f"ZooKeeper's {_CONTROLLER} has {newest.value}") from None

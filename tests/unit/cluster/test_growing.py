"""A cluster of kaput's grows up to the ids of its controllers, and not beyond. No process starts here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kaput.cluster.own_cluster import OwnCluster
from kaput.cluster.properties import NodeLayout
from kaput.errors import UsageError
from kaput.scenario.cluster import Cluster


@pytest.mark.parametrize(("place", "first"), [(0, 1), (1, 1001)])
@pytest.mark.parametrize(("count", "instead"), [(99, "add 1 or fewer"), (100, "add none")])
def test_brokers_that_are_added_take_no_ids_of_controllers(
    place: int, first: int, count: int, instead: str, tmp_path: Path
) -> None:
    """Whether it is the first or the second of several clusters: broker 101 would be a controller, too."""
    spec = Cluster(brokers=count, controllers=3).numbered(place)
    nothing: Any = None
    cluster = OwnCluster(nothing, spec, nothing, nothing, tmp_path)
    cluster._layouts = [
        NodeLayout(first + n, "broker", "127.0.0.1", 9000 + n, None, tmp_path) for n in range(count)
    ]
    with pytest.raises(UsageError, match=f"^{count + 5} brokers are too many, .* controllers; {instead}$"):
        cluster.grow(5)
    assert len(cluster.broker_endpoints) == count

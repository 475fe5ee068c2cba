"""Which delivery timeout a producer has, by its client and its settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kaput.analysis.questions.availability import timeouts_ns

MS = 1_000_000


@pytest.mark.parametrize(
    ("client", "config", "timeout_ms"),
    [
        ("librdkafka", {}, 300_000),
        ("librdkafka", {"message.timeout.ms": 700}, 700),
        ("librdkafka", {"delivery.timeout.ms": "800"}, 800),
        ("librdkafka", {"delivery.timeout.ms": 800, "message.timeout.ms": 700}, 700),
        ("java", {}, 120_000),
        ("java", {"message.timeout.ms": 700, "delivery.timeout.ms": 900}, 900),
        ("java", {"delivery.timeout.ms": 0}, None),  # no limit
        ("java", {"delivery.timeout.ms": "soon"}, None),
        ("java", {"delivery.timeout.ms": -1}, None),
        ("command", {"delivery.timeout.ms": 900}, None),
    ],
)
def test_delivery_timeout_by_client_and_settings(
    client: str, config: dict[str, Any], timeout_ms: int | None
) -> None:
    """Of one whose client kaput does not know none."""
    specs = [SimpleNamespace(client="java", config={}), SimpleNamespace(client=client, config=config)]
    given: Any = SimpleNamespace(scenario=SimpleNamespace(producer_specs=lambda: specs))
    told = {} if timeout_ms is None else {1: timeout_ms * MS}
    assert timeouts_ns(given) == {0: 120_000 * MS} | told


def test_no_delivery_timeout_without_a_scenario() -> None:
    """There is nothing that names the clients."""
    given: Any = SimpleNamespace(scenario=None)
    assert timeouts_ns(given) == {}

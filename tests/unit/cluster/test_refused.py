"""What a node refuses is not asked again; what it only fails to answer is."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from kaput.cluster.admin.broadcast import Broadcaster
from kaput.cluster.admin.requests import metadata
from kaput.cluster.wire import AccessRefused, Endpoint, Unanswered, trouble
from kaput.errors import LabError


@pytest.fixture
def asker() -> Iterator[Broadcaster]:
    """Who would try for ten minutes."""
    made = Broadcaster(2, 600)
    yield made
    made.close()


@pytest.mark.parametrize("code", [29, 30, 31, 53, 58, 65])
def test_authorization_error_is_access_refused(code: int) -> None:
    """With Kafka's word for it, or its sentence."""
    assert isinstance(trouble("topic x", code), AccessRefused)
    assert str(trouble("topic x", 29)) == "topic x: TOPIC_AUTHORIZATION_FAILED"
    assert str(trouble("topic x", 29, "not yours")) == "topic x: not yours"


def test_other_errors_are_not_access_refused() -> None:
    """A leader that has moved, for example."""
    assert not isinstance(trouble("topic x", 6), Unanswered)


def test_authorization_error_is_not_retried(asker: Broadcaster) -> None:
    """However much time is left."""
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        raise AccessRefused("User:nobody has no right")

    began = time.monotonic()
    with pytest.raises(AccessRefused, match="the topics: refused: User:nobody has no right"):
        asker.retry(look, "the topics")
    assert len(looks) == 1 and time.monotonic() - began < 300


def test_unanswered_request_is_retried(asker: Broadcaster) -> None:
    looks: list[int] = []

    def look() -> int:
        looks.append(1)
        if len(looks) < 3:
            raise LabError("no broker answered")
        return len(looks)

    assert asker.retry(look, "the topics") == 3


def test_unreachable_nodes_are_not_an_authorization_error(asker: Broadcaster) -> None:
    """A port that nobody listens at is no refusal."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        endpoint = Endpoint(*server.getsockname())
    assert asker.ask_all({1: endpoint}, metadata) == {}
    with pytest.raises(LabError, match="to make topics: no node answered"):
        asker.ask_any({1: endpoint}, metadata, "to make topics", 5)

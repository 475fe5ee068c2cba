"""The blocks of stores, which keep messages that Kafka did not take, and of their replay.

Implemented in kaput.keep (docs/KEEP.md).
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field

from kaput.scenario.block import Block, Found
from kaput.scenario.values import Count, DurationMs, Rate, no_bool

StoreKind = Literal["sqlite", "failure-log", "mongodb", "elasticsearch", "opensearch"]
ServerKind = Literal["mongodb", "elasticsearch", "opensearch"]
SERVER_KINDS = get_args(ServerKind)
StoreName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
OrNone = Annotated[int, Field(ge=0), BeforeValidator(no_bool)]


class Store(Block):
    """A store for messages that Kafka did not take."""

    kind: StoreKind = "sqlite"
    """`sqlite` and `failure-log`: files in the run folder; the others are servers, which kaput starts."""
    where: str | None = None
    """The URL of a server of your own (docs/KEEP.md), whose store has to be empty; it takes no faults."""
    disk_mb: Annotated[int, Field(ge=8), BeforeValidator(no_bool)] | None = None
    """MiB of a separate file system for its data; needs namespaces. Default: the run folder's."""

    @property
    def is_server(self) -> bool:
        """Whether the store is a separate process."""
        return self.kind in SERVER_KINDS

    def rules(self) -> Found:
        if self.where is None:
            return
        if not self.is_server:
            yield ("where",), f"{self.kind} keeps its files in the run folder; leave it out"
        elif not self._is_url(self.where):
            wanted = "mongodb://HOST:PORT/DATABASE.COLLECTION"
            if self.kind != "mongodb":
                wanted = f"{self.kind}+http://HOST:PORT/INDEX"
            yield ("where",), f"{self.where!r} is not the URL of such a store; write {wanted}"
        if self.disk_mb is not None:
            yield ("disk-mb",), "kaput does not manage your own server's disk; leave it out"

    def _is_url(self, text: str) -> bool:
        """As keep.open_store takes it, with a host and the name of a collection or an index."""
        parts = urlsplit(text)
        own = ("mongodb", "mongodb+srv")
        schemes = own if self.kind == "mongodb" else (f"{self.kind}+http", f"{self.kind}+https")
        return parts.scheme in schemes and bool(parts.hostname) and len(parts.path) > 1


class OnFailure(Block):
    """What a producer does with messages that Kafka does not take: see kaput.keep (docs/KEEP.md)."""

    stores: Annotated[list[str], Field(min_length=1)]
    """The stores that keep them, in the order in which they are tried."""
    policy: Literal["block", "spill", "refuse"] = "block"
    """When there is no room: wait (`block`), use the next store (`spill`), or `refuse` the message."""
    block_for: DurationMs = 60_000
    """With `block`: how long; then the message is refused."""
    spool_first: bool = False
    """Whether a message is in the store before it is sent, and removed when it is acknowledged."""
    ordered: bool = False
    """Whether messages of a key are kept while an earlier one is."""
    resends: OrNone = 1
    """How often a message whose delivery failed is sent again before it is kept."""
    queue: Count = 10_000
    """How many messages may wait for that."""

    def rules(self) -> Found:
        for index, name in enumerate(self.stores):
            if name in self.stores[:index]:
                yield ("stores", index), f"{name} is listed twice"
        if len(self.stores) > 1 and self.policy != "spill":
            yield ("policy",), f"{self.policy} uses one store; write spill, or leave the others out"


class Replay(Block):
    """Sends what stores kept, after the last heal and before the drain."""

    rate: Literal["max"] | Rate = "max"
    """Messages per second, or `max`."""
    at_least_once: bool = False
    """Without transactions: what a killed replay had sent may be sent again."""
    kills: OrNone = 0
    """How often the replay of each store is killed (SIGKILL) at a random moment, and started again."""

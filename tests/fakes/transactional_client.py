"""A client that sends in transactions, without a broker."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, TopicPartition

RETRIABLE = {"retriable": True}
ABORT = {"txn_requires_abort": True}
FATAL = {"fatal": True}


def trouble(**kind: bool) -> KafkaException:
    """An error of the client that asks for this."""
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, "slow", **kind))


class Client:
    """Notes what it is asked; `fails` has errors for some of its calls, by name, in their order."""

    def __init__(self, fails: dict[str, list[KafkaException | None]]) -> None:
        self.fails, self.done = fails, list[str]()
        self.offsets: list[dict[tuple[str, int], int]] = []

    def _call(self, name: str) -> None:
        self.done.append(name)
        if self.fails.get(name) and (error := self.fails[name].pop(0)) is not None:
            raise KafkaException(*error.args)  # one that nobody holds on to

    def init_transactions(self, _timeout_s: float) -> None:
        self._call("init")

    def begin_transaction(self) -> None:
        self._call("begin")

    def send_offsets_to_transaction(self, offsets: list[TopicPartition], *_more: object) -> None:
        self.offsets.append({(at.topic, at.partition): at.offset for at in offsets})
        self._call("offsets")

    def commit_transaction(self, _timeout_s: float) -> None:
        self._call("commit")

    def abort_transaction(self, _timeout_s: float) -> None:
        self._call("abort")

    def produce(self, *_message: object) -> None:
        self._call("send")

    def poll(self, _timeout_s: float) -> int:
        if self.fails.get("poll"):
            raise KafkaException(*self.fails["poll"].pop(0).args)  # type: ignore[union-attr]
        return 0

    def purge(self) -> None:
        self.done.append("purge")

    def __len__(self) -> int:
        return len(self.fails.get("poll", ()))

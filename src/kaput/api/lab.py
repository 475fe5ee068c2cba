"""kaput.Lab: a real cluster in a `with` block that can be broken and that accounts for messages.

    with kaput.lab(brokers=3) as lab:
        lab.create_topic("orders", partitions=3)
        with lab.producing("orders", rate=500), lab.fault("kill", "leader-of orders/0"):
            time.sleep(5)
        lab.assert_none_lost()

The public API for programs and tests (docs/IN_YOUR_TESTS.md). The cluster itself:
operate/standing_cluster.py; the evidence: sending.py; messages of other producers: counting.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kaput.errors import UsageError, needs_package
from kaput.operate.standing_cluster import StandingCluster

if TYPE_CHECKING:
    from kaput.api.counting import Counted
    from kaput.api.runs import Findings
    from kaput.api.sending import Accounting, ProducerSent

DRAIN_S = 60.0
_FOREVER = "10080m"  # the longest that a scenario allows: a week


class Lab(StandingCluster):
    __doc__ = StandingCluster.__doc__

    _accounting_or_why: Accounting | Exception

    def __enter__(self) -> Lab:
        try:
            from kaput.api.sending import Accounting
        except ModuleNotFoundError as error:
            self._accounting_or_why = needs_package("counting the messages of a lab", error)
            super().__enter__()
        else:
            super().__enter__()
            self._accounting_or_why = Accounting(self._directory, self._cluster, self._admin)
        return self

    @property
    def _accounting(self) -> Accounting:
        """Raises UsageError if only kaput-lab is installed, which neither records nor judges."""
        if isinstance(self._accounting_or_why, Exception):
            raise self._accounting_or_why
        return self._accounting_or_why

    def produce(self, topic: str, count: int = 1000, **settings: Any) -> ProducerSent:
        """Sends `count` numbered messages to a topic created with `create_topic`; waits for all outcomes.

        `settings`: the keys of a producer in a scenario (`acks="all"`, `idempotence=True`, `rate=500` a
        second, `payload_bytes=100`, `config={...}` in librdkafka's names). Messages are numbered from 0;
        every call is a producer of its own. Raises UsageError, LabError.
        """
        with self._accounting.producing(self._spec, self._topics, topic, messages=count, **settings) as sent:
            sent.all_sent.wait()
        return sent

    @contextmanager
    def producing(self, topic: str, rate: float = 1000, **settings: Any) -> Iterator[ProducerSent]:
        """Sends numbered messages while the block runs, at `rate` per second; then waits for all outcomes.

        The yielded object is complete when the block has ended. `settings` as for `produce`. Raises
        UsageError, LabError.
        """
        given = {"rate": rate, "duration": _FOREVER, **settings}
        with self._accounting.producing(self._spec, self._topics, topic, **given) as sent:
            yield sent

    def account(self) -> Findings:
        """The findings on every message sent by `produce` and `producing`, from the log of their topics.

        Counts like `kaput run`, in this process (no Spark). Waits up to a minute until all replicas are in
        sync. The evidence is in the lab's folder, if one was given. Raises UsageError while messages are
        being sent or if none were, LabError.
        """
        return self._accounting.account(self._spec, self._topics, self._faults.records(), DRAIN_S)

    def assert_none_lost(self) -> Findings:
        """Raises AssertionError with examples if an acknowledged message is lost; see `account`."""
        findings = self.account()
        if findings.lost:
            head = f"{findings.lost} of {findings.totals.acked} acknowledged messages are lost:"
            stories = [f"  {each.story}" for one in findings.anomaly("lost") for each in one.examples]
            raise AssertionError("\n".join([head, *stories]))
        if findings.totals.unread:
            raise AssertionError(f"{findings.totals.unread} messages could not be read: they may be lost")
        return findings

    def count(self, topic: str, acked: Iterable[str | bytes], by: str = "key") -> Counted:
        """Counts what your own producer sent, by a fresh reader that sees committed records.

        `acked`: the keys of messages that were acknowledged to it, or their values with `by="value"`; they
        are unique in the topic. Waits up to a minute for leaders and for the end of the topic. Raises
        UsageError, LabError.
        """
        from kaput.api.counting import count

        return count(self, topic, acked, by)


lab = Lab  # the shorthand: `with kaput.lab(brokers=3) as lab`

__all__ = ["Lab", "UsageError", "lab"]

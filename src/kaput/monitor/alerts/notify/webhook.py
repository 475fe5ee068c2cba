"""A plain webhook: a POST of `{"alerts": [...]}` with what is to be announced, and what is resolved of it."""

from __future__ import annotations

from collections.abc import Sequence

from kaput.monitor.alerts.alert import Transition
from kaput.monitor.alerts.notify.documents import document
from kaput.monitor.alerts.notify.post import Endpoint, post


class Webhook:
    """Each alert is posted at least once for each change; `id` and `state` tell copies."""

    repeat_s: float | None = None

    def __init__(self, url: str) -> None:
        self._endpoint = Endpoint.of(url)
        self.name = self._endpoint.shown

    def wants(self, transition: Transition) -> bool:
        """What is announced."""
        return transition.announce

    def send(self, transitions: Sequence[Transition], timeout_s: float) -> None:
        """Posts them in one document."""
        post(self._endpoint, {"alerts": [document(each) for each in transitions]}, timeout_s)

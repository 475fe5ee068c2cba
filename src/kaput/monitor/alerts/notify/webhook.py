"""A plain webhook: a POST of `{"alerts": [...]}` with announced alerts, and their resolutions."""

from __future__ import annotations

from collections.abc import Sequence

from kaput.monitor.alerts.alert import Transition
from kaput.monitor.alerts.notify.documents import document
from kaput.monitor.alerts.notify.post import Endpoint, post


class Webhook:
    """Posts each change of an alert at least once; receivers recognize duplicates by `id` and `state`."""

    repeat_s: float | None = None

    def __init__(self, url: str) -> None:
        self._endpoint = Endpoint.of(url)
        self.name = self._endpoint.public_url

    def wants(self, transition: Transition) -> bool:
        """Announced changes only."""
        return transition.announce

    def send(self, transitions: Sequence[Transition], timeout_s: float) -> None:
        """Posts them in one document."""
        post(self._endpoint, {"alerts": [document(each) for each in transitions]}, timeout_s)

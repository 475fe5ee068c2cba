"""The counts of a watch's streaming ledger, while it is running and at its end."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from kaput.dashboard.safe_files import Runs

# As the job writes them (analysis/streaming/state_update.py).
DIRECTORY, FINAL, STATUS = "watch", "final.json", "status.json"
ANOMALIES = ("missing", "late", "duplicated", "reordered")


class _Ledger(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    acked: int
    missing: int
    late: int
    duplicated: int
    reordered: int
    complete: bool = False


class LedgerFile:
    """The ledger files of one run folder; read again when they change."""

    def __init__(self, runs: Runs, name: str) -> None:
        self._runs, self._name = runs, name
        self._written: tuple[int | None, ...] = ()
        self._known: dict[str, Any] | None = None

    def look(self) -> dict[str, Any] | None:
        """The counts, and at the end (`final`) the verdict; None without a ledger."""
        written = tuple(self._runs.changed_ns(self._name, DIRECTORY, file) for file in (FINAL, STATUS))
        if written != self._written:
            self._written, self._known = written, self._read(final=written[0] is not None)
        return self._known

    def _read(self, final: bool) -> dict[str, Any] | None:
        try:
            text = self._runs.read(self._name, DIRECTORY, FINAL if final else STATUS)
            found = _Ledger.model_validate_json(text)
        except (OSError, ValidationError):
            return None  # for example an audit, which has other counts
        counts = {name: getattr(found, name) for name in ANOMALIES}
        return {**counts, "final": _verdict(found, counts) if final else None}


def _verdict(found: _Ledger, counts: dict[str, int]) -> dict[str, str]:
    kind = "violated" if found.missing else "held" if found.complete else "inconclusive"
    text = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    rest = "" if found.complete else " Not everything could be read."
    return {"kind": kind, "message": f"{found.acked:,} acknowledged: {text}.{rest}"}

"""The report page of a run (its report.html, or made from its findings if there is none), and comparisons.

Pages made here are cached in memory and never written: viewing runs does not change them, and needs no
write permission.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from kaput.dashboard.pages import address
from kaput.dashboard.safe_files import Runs
from kaput.evidence.findings import Findings
from kaput.evidence.findings_file import read_findings
from kaput.evidence.folder import RunFolder

_CACHED = 8  # pages of a megabyte or two
READ_BY_PATH = ("manifest.json", "scenario.yaml", "findings.json", "analysis")


class Reports:
    """The pages of `runs`. Thread-safe; one page is made at a time."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._making = threading.Lock()
        self._made: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def page(self, name: str) -> bytes | None:
        """The page of a judged run; None if the run is not judged.

        Raises OSError, UsageError if the run is damaged.
        """
        judged_ns = self._runs.changed_ns(name, "findings.json")
        if judged_ns is None:
            return None
        written_ns = self._runs.changed_ns(name, "report.html")
        if written_ns is not None and written_ns >= judged_ns:
            return self._runs.read(name, "report.html")
        with self._making:
            key = name, judged_ns
            if key not in self._made:
                self._made[key] = self._make(name)
                while len(self._made) > _CACHED:
                    self._made.popitem(last=False)
            return self._made[key]

    def _make(self, name: str) -> bytes:
        from kaput.report.run_report import to_html

        return to_html(*self._read(name)).encode()

    def comparison(self, names: Sequence[str]) -> bytes:
        """The page of several judged runs. Raises OSError, UsageError if one is damaged or not judged."""
        from kaput.report.comparison import Entry
        from kaput.report.comparison_report import to_html

        with self._making:
            runs = [self._read(name) for name in names]
            # Each run is its own variant, so that runs of one scenario are compared and not averaged.
            entries = [
                Entry(name, name, findings.run.scenario, findings.run.varied, findings)
                for name, (_, findings) in zip(names, runs, strict=True)
            ]
            links = [("All runs", "/"), *((name, address(name)) for name in names)]
            return to_html(runs, entries, links=links).encode()

    def _read(self, name: str) -> tuple[RunFolder, Findings]:
        for part in READ_BY_PATH:
            self._runs.check(name, part)
        folder = self._runs.folder(name)
        return folder, read_findings(folder.findings_path)

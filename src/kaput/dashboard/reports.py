"""A run's page: its report.html, or the same made of its findings where the folder has none; and the
comparison of several runs.

Pages made here are kept in memory and not written: looking at runs changes nothing in them, and may be done
without the right to.
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

_KEPT = 8  # pages of a megabyte or two
READ_BY_PATH = ("manifest.json", "scenario.yaml", "findings.json", "analysis")


class Reports:
    """The pages of `runs`. Safe across threads; one page is made at a time."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._making = threading.Lock()
        self._made: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def page(self, name: str) -> bytes | None:
        """The page of a run that was judged; None of another.

        Raises OSError, UsageError where it is damaged.
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
                while len(self._made) > _KEPT:
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
            # Each is a variant of its own: two runs of one scenario are compared as well, and not their mean.
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

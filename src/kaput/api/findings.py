"""Findings in Python: the document (evidence/findings.py) with its run folder, and its notebook output."""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten

from pydantic import PrivateAttr

from kaput.evidence import findings as document
from kaput.evidence.findings_file import read_findings
from kaput.evidence.folder import RunFolder

_REPR_CHARS = 150


class Findings(document.Findings):
    """The fates of all messages of a run, and the verdict. `str()` returns the report as text."""

    _folder: Path = PrivateAttr()

    @classmethod
    def of(cls, found: document.Findings, folder: Path) -> Findings:
        """The same findings, of this run folder."""
        made = cls(**{name: getattr(found, name) for name in document.Findings.model_fields})
        made._folder = folder
        return made

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self._folder

    def __str__(self) -> str:
        from kaput.report.run_report import to_text

        return to_text(self, self._folder).plain

    def __repr__(self) -> str:
        from kaput.report.sentences import verdict_sentence

        return f"<kaput.Findings of {self.run.scenario}: {shorten(verdict_sentence(self), _REPR_CHARS)}>"

    def _repr_html_(self) -> str:
        from kaput.report.notebook import to_notebook

        return to_notebook(RunFolder(self._folder), self)


def load(folder: str | Path) -> Findings:
    """Reads findings.json of a judged run. Raises UsageError."""
    path = RunFolder(Path(folder))
    return Findings.of(read_findings(path.findings_path), path.path)

"""A run folder that is deleted while it is recorded: the machine's failure, no bug of kaput's."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from kaput.errors import LabError
from kaput.evidence.folder import RunFolder
from kaput.runner.experiment import Experiment
from kaput.scenario.loader import load_builtin


def _experiment(runs: Path, deletes: bool) -> Experiment:
    def run_clusters(_owner: Any, _scenario: Any, folder: RunFolder, _progress: Any) -> Any:
        if deletes:
            shutil.rmtree(folder.path)
        (folder.path / "nowhere" / "file").write_text("")

    provider = Mock(versions={}, run_clusters=run_clusters)
    return Experiment("x", load_builtin("broker-killed"), 1, runs, provider, Mock())


def test_a_deleted_folder_is_named(tmp_path: Path) -> None:
    """Any other file that is not there is a bug."""
    with pytest.raises(LabError, match=r"-x-.* was deleted while it was recorded"):
        _experiment(tmp_path, deletes=True).run()
    with pytest.raises(FileNotFoundError):
        _experiment(tmp_path, deletes=False).run()

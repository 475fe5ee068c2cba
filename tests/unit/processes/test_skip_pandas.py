"""Processes of kaput's own do without pandas, also where it is installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from waiting import PATIENCE_S

pytest.importorskip("pandas", reason="pandas is not installed: nobody could load it")
_TAIL = "import sys; print('pandas' in sys.modules)"
_ARROW = "import pyarrow; pyarrow.array([1, 2])"


def _loaded(code: str) -> bool:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; {_TAIL}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    return done.stdout.split()[-1] == "True"


def test_arrow_does_not_load_pandas() -> None:
    """It does where nobody says otherwise: should that change, this is not needed any more."""
    assert _loaded(_ARROW)
    lean = "from kaput.processes.skip_pandas import skip_pandas; skip_pandas(); skip_pandas()"
    assert not _loaded(f"{lean}; {_ARROW}")


def test_importing_pandas_raises_module_not_found() -> None:
    """As by any Python without it."""
    code = (
        "from kaput.processes.skip_pandas import skip_pandas; skip_pandas()\n"
        "try:\n    import pandas\nexcept ModuleNotFoundError as error:\n    print(error.name)\n"
        "import sys; print(len(sys.meta_path))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "pandas"

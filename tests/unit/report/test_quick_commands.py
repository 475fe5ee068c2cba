"""What only reads a few files starts at once: it loads neither Spark nor what counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from handmade_findings import document

from waiting import PATIENCE_S

HEAVY = ("pyspark", "numpy", "polars", "pyarrow", "kafka", "altair", "vl_convert", "jinja2", "pydantic")
_CODE = f"""
import json, sys
from kaput.cli.main import main
try:
    main()
except SystemExit:
    pass
print()
print(json.dumps([name for name in {HEAVY} if name in sys.modules]))
"""


@pytest.mark.parametrize("command", [["--help"], ["scenarios"], ["report"], ["tool", "--list"]])
def test_light_commands_do_not_import_spark(command: list[str], tmp_path: Path) -> None:
    """Help, the list of scenarios, the report of a run that was judged, what comes before a tool."""
    if command == ["report"]:
        (tmp_path / "findings.json").write_text(json.dumps(document()))
        command = ["report", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", _CODE, *command],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert len(done.stdout.splitlines()) > 3, done.stderr
    # pydantic reads documents, of which help shows none.
    assert json.loads(done.stdout.splitlines()[-1]) == ([] if command == ["--help"] else ["pydantic"])

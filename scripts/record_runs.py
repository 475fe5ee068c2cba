"""Records the runs of tests/recorded anew: one built-in of each family, kept small. Runs of files (the
tutorial's, one on an existing cluster) are kept with --keep.

    .venv/bin/python scripts/record_runs.py                     all of them (about a minute and a half each)
    .venv/bin/python scripts/record_runs.py broker-killed mirror
    .venv/bin/python scripts/record_runs.py --keep RUN_DIR...   of runs that have been made already

Of each run its manifest, its scenario and its evidence stay, without what tells of the machine. The second
opinion reads them (tests/second_opinion/test_recorded_runs.py).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kaput.scenario.builtin import builtin_names

RECORDED = Path(__file__).parents[1] / "tests" / "recorded"
# What no claim is made from: requests are counted elsewhere, and replica logs repeat the log.
LEFT_OUT = ("requests", "replica_log")
SAMPLES = ("lag", "last_stable_offset", "high_watermark")


def main() -> int:
    """Records what is asked for; 1 if a run was not made."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="built-ins; without any, those that are recorded")
    parser.add_argument("--keep", nargs="+", type=Path, default=[], help="run folders to keep instead")
    arguments = parser.parse_args()
    for run in arguments.keep:
        keep(run)
    if arguments.keep:
        return 0
    recorded = sorted(path.name for path in RECORDED.iterdir() if path.name in builtin_names())
    return max(record(name) for name in arguments.names or recorded)


def record(name: str) -> int:
    """Runs a built-in, and keeps its evidence; 1 if there is none."""
    with tempfile.TemporaryDirectory() as runs:
        subprocess.run([sys.executable, "-m", "kaput", "run", name, "--runs", runs], check=False)
        made = [path.parent for path in Path(runs).glob("*/manifest.json")]
        for run in made:
            keep(run)
        return 0 if made else 1


def keep(run: Path) -> None:
    """Copies what the second opinion reads of a run to tests/recorded."""
    manifest = json.loads((run / "manifest.json").read_text())
    kept = RECORDED / manifest["scenario"]
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    (kept / "manifest.json").write_text(json.dumps(_scrubbed(manifest), indent=1) + "\n")
    shutil.copy(run / "scenario.yaml", kept)
    for table in sorted((run / "evidence").iterdir()):
        if table.name not in LEFT_OUT:
            _shrink(table, kept / "evidence" / table.name)
    size = sum(file.stat().st_size for file in kept.rglob("*") if file.is_file())
    print(f"{kept.name}: {size / 1e3:.0f} kB")


def _scrubbed(manifest: dict[str, Any]) -> dict[str, Any]:
    """Without facts about the machine."""
    versions = {key: value for key, value in manifest["versions"].items() if key != "kaput-commit"}
    return {**manifest, "state": "sealed", "host": {}, "versions": versions}


def _shrink(table: Path, to: Path) -> None:
    """A table's files as they are; of samples, those that claims are made from."""
    shutil.copytree(table, to, ignore=shutil.ignore_patterns("*.arrows*"))
    if table.name == "samples":
        for file in to.glob("*.parquet"):
            rows = pq.ParquetFile(file).read()
            wanted = pa.array([name in SAMPLES for name in rows["name"].to_pylist()])
            pq.write_table(rows.filter(wanted), file, compression="zstd")


if __name__ == "__main__":
    sys.exit(main())

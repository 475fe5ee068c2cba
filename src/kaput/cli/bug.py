"""`kaput bug` and `kaput version`: what a bug report needs."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from kaput.cli.options import Json, RunDir
from kaput.cli.verbs import print_json
from kaput.core import NEWEST_KAFKA, VERSION
from kaput.errors import JavaError

_PACKAGES = ("kaput", "confluent-kafka", "kafka-python", "pyspark", "pyarrow", "polars", "pydantic")

_WORDS = {"default_kafka": "default Kafka", "root": "run as root"}


def version_command(json: Json = False) -> None:
    """Print the versions of kaput and of what it uses.

    Example: kaput version --json
    """
    known = installed()
    if json:
        print_json(known, indent=1)
        return
    for name, value in known.items():
        if name != "packages":
            shown = ("yes" if value else "no") if isinstance(value, bool) else value
            typer.echo(f"{_WORDS.get(name, name)}: {shown}")
    for name, value in known["packages"].items():
        typer.echo(f"{name}: {value or 'not installed'}")


def bug_command(
    run_dir: RunDir,
    *,
    out: Annotated[
        Path | None, Option(metavar="FILE", help="Archive to write (default: kaput-bug-RUN.tar.gz, here).")
    ] = None,
    json: Json = False,
) -> None:
    """Pack a run folder for a bug report.

    The archive has the manifest, scenario, findings, evidence and broker logs, without payloads and
    passwords; names of topics, groups and servers stay. Look at it before you send it: tar tzf FILE.

    Example: kaput bug runs/20260101T120000-noop-1a2b3c
    """
    from kaput.export.bug_report import pack

    out = out or Path(f"kaput-bug-{run_dir.resolve().name}.tar.gz")
    left_out = pack(run_dir, out, installed())
    size = out.stat().st_size
    if json:
        print_json({"archive": str(out), "bytes": size, "left_out": left_out})
        return
    for sentence in left_out:
        typer.echo(sentence, err=True)
    typer.echo(
        f"{out} ({size / 1e6:.1f} MB), without payloads and passwords. It names topics, groups and servers: "
        f"look at it before you send it (tar tzf {out})."
    )


def installed() -> dict[str, Any]:
    """kaput, Python, Java, the machine, and the packages that matter; null: not installed."""
    from kaput.java import find_java

    try:
        java = find_java().text
    except JavaError as error:
        java = str(error)
    return {
        "kaput": VERSION,
        "default_kafka": NEWEST_KAFKA,
        "python": platform.python_version(),
        "java": java,
        "system": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "root": sys.platform != "win32" and os.geteuid() == 0,
        # This file is in kaput-lab, also where all of kaput is installed as one: a checkout, the image.
        "packages": {"kaput-lab": VERSION} | {name: _version(name) for name in _PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

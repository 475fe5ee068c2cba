"""Starts what a client process does; every client module's `main` is `run_client` with its own part.

An error of the operating system (a full disk, a folder that became read-only) is reported in a sentence: its
traceback would help nobody.
"""

from __future__ import annotations

from collections.abc import Callable

from kaput.processes.skip_pandas import skip_pandas
from kaput.workload.client_spec import notify


def run_client(client: Callable[[], None]) -> None:
    """Runs it. Raises SystemExit (1) after an OSError, which has been reported by then."""
    skip_pandas()
    try:
        client()
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        notify("trouble", message=f"{where}{error.strerror or error}")
        raise SystemExit(1) from None

"""What a client process imports, and reports of an error of the operating system."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kaput.workload.client_spec import run_client


def test_os_error_is_reported_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """With the file, and no traceback; an error without a file is told all the same."""

    def fails(error: OSError) -> None:
        raise error

    for error, message in [
        (PermissionError(13, "Permission denied", "/runs/1/evidence"), "/runs/1/evidence: Permission denied"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("no message of a number"), "no message of a number"),
    ]:
        with pytest.raises(SystemExit) as ended:
            run_client(lambda error=error: fails(error))  # type: ignore[misc]
        printed = capsys.readouterr()
        assert ended.value.code == 1 and printed.err == ""
        assert json.loads(printed.out) == {"kind": "trouble", "message": message}


def test_unexpected_exception_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        run_client(lambda: divmod(1, 0) and None)


def test_client_processes_load_neither_pydantic_nor_yaml() -> None:
    """Which would be a third of the cost of a start. Producers with stores or transactions need them."""
    modules = ("librdkafka.producer", "librdkafka.member", "librdkafka.share_member", "command.producer")
    every = ", ".join(f"kaput.workload.{name}" for name in (*modules, "command.member", "java.member"))
    code = f"import sys, {every}; print([n for n in ('pydantic', 'yaml', 'pandas') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""kaput: the failover laboratory for Apache Kafka. Start with docs/ARCHITECTURE.md.

From Python (docs/PYTHON.md): `kaput.run("leader-kill-acks-1")` runs a scenario and judges it,
`kaput.analyze(folder)` judges evidence, `kaput.load(folder)` reads findings, and `kaput.lab(...)` is a real
cluster for your own program or tests. `kaput.keep` keeps messages that Kafka did not accept (docs/KEEP.md).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kaput.core import VERSION as __version__

if TYPE_CHECKING:
    from kaput import keep
    from kaput.api.lab import Lab, lab
    from kaput.api.running import analyze, run
    from kaput.api.runs import Findings, Run, load
    from kaput.errors import FaultError, KaputError, LabError, UsageError
    from kaput.operate.fault_injection import InjectedFault

__all__ = [
    "FaultError", "Findings", "InjectedFault", "KaputError", "Lab", "LabError", "Run", "UsageError",
    "__version__", "analyze", "keep", "lab", "load", "run",
]  # fmt: skip

_HOMES = {
    "Findings": "api.runs", "load": "api.runs", "Run": "api.runs",
    "analyze": "api.running", "run": "api.running",
    "Lab": "api.lab", "lab": "api.lab", "InjectedFault": "operate.fault_injection",
    "FaultError": "errors", "KaputError": "errors", "LabError": "errors", "UsageError": "errors",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    # Imported on first use: every client and worker process imports this package, and few need more of it.
    if name in _HOMES:
        try:
            return getattr(import_module(f"kaput.{_HOMES[name]}"), name)
        except ModuleNotFoundError as error:
            raise import_module("kaput.errors").needs_package(f"kaput.{name}", error) from error
    if name == "keep":
        return import_module("kaput.keep")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__]

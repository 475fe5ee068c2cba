"""kaput: the failover laboratory for Apache Kafka. Start with docs/ARCHITECTURE.md.

`kaput.lab(...)` is a real cluster for your own program or tests: docs/IN_YOUR_TESTS.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaput.operate.lab import Lab, lab

__all__ = ["Lab", "__version__", "lab"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Lazily: every client and worker process imports this package, and few need brokers.
    if name in ("Lab", "lab"):
        return getattr(import_module("kaput.operate.lab"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

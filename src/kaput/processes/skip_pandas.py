"""Keeps pandas out of kaput's own processes, so that they start sooner."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_PANDAS = "pandas"


class _PandasBlocker(MetaPathFinder, Loader):
    """Finds pandas, but fails to load it; unlike a None in sys.modules, which confuses some libraries."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname == _PANDAS else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        raise ModuleNotFoundError(f"{spec.name} is not loaded in this process", name=spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Never called: nothing is created."""


def skip_pandas() -> None:
    """Makes this process behave as if pandas were not installed; does nothing if it is loaded. pyarrow and
    PySpark import it if it is installed, for up to a second, to check whether values are its types; ours
    never are. Only for kaput's own processes: others may need pandas.
    """
    if not any(isinstance(finder, _PandasBlocker) for finder in sys.meta_path):
        sys.meta_path.insert(0, _PandasBlocker())

"""What a process of kaput's own leaves out, so that it starts sooner."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_PANDAS = "pandas"


class _LeftOut(MetaPathFinder, Loader):
    """Finds pandas, and cannot load it: those who ask for a module in sys.modules are not given a None."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname == _PANDAS else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        raise ModuleNotFoundError(f"{spec.name} is left out of this process", name=spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Never called: nothing is created."""


def leave_out_pandas() -> None:
    """From now on this process has no pandas, as if it were not installed; does nothing where it is loaded.

    pyarrow and PySpark load it wherever it is installed, for up to a second, to see whether values are its
    own; ours never are. Only for processes that are kaput's alone: in others it may be wanted.
    """
    if not any(isinstance(finder, _LeftOut) for finder in sys.meta_path):
        sys.meta_path.insert(0, _LeftOut())

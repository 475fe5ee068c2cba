"""rich's console for text that contains data: only kaput's own colors reach the terminal; data is escaped."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from rich.console import Console as _RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from kaput.printable import printable_lines, unescaped


class Console(_RichConsole):
    """A console on stdout or stderr. Strings are not parsed as markup, so brackets in data stay."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        stream = unescaped(sys.stderr if stderr else sys.stdout)
        # rich knows NO_COLOR and FORCE_COLOR. Progress never takes a pipe for a terminal.
        colored = os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0") and not os.environ.get("NO_COLOR")
        super().__init__(
            file=stream,
            highlight=False,
            markup=False,
            soft_wrap=soft_wrap,
            force_terminal=True if colored and not stderr else None,
        )

    @property
    def width_or_none(self) -> int | None:
        """The terminal's width, or COLUMNS; None for a pipe or a file without that."""
        return self.width if self.is_terminal or os.environ.get("COLUMNS", "").isdigit() else None

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Renders as rich does, with the text of every segment escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable_lines(segment.text))

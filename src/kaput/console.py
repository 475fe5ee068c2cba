"""rich's console for text that contains data: only kaput's own colors reach the terminal; data is escaped."""

from __future__ import annotations

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
        super().__init__(file=stream, highlight=False, markup=False, soft_wrap=soft_wrap)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Renders as rich does, with the text of every segment escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable_lines(segment.text))

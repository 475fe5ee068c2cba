"""Makes the picture of the README, for light and dark pages: the timeline of the recorded run of
leader-isolated-acks-1, which is also the one that docs/OUTAGES.md quotes.

    .venv/bin/python docs/picture.py

It is what `kaput report RUN_DIR --format svg` prints, without attributes that only a screen reader of charts
would use.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from kaput.analysis.pipeline import analyse
from kaput.analysis.spark.in_process import InProcess
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from kaput.report.images import to_svg

DOCS = Path(__file__).parent
RECORDED = DOCS.parent / "tests" / "recorded" / "leader-isolated-acks-1"
LIGHT, DARK = DOCS / "isolated-leader.svg", DOCS / "isolated-leader-dark.svg"
# Background, text, grid and axes; the colors of what is drawn are readable on both.
_DARK = {"white": "#0d1117", "#000": "#e6edf3", "#1c2430": "#e6edf3", "#ddd": "#30363d", "#888": "#8b949e"}
_ATTRIBUTES = re.compile(r' (?:aria-[a-z]+|role|class|pointer-events|stroke-miterlimit)="[^"]*"')
_NUMBERS = re.compile(r"-?\d+\.\d{2,}")
_EMPTY = re.compile(r"<g[^>]*/>|<g[^>]*></g>|<path[^>]* d=\"\"[^>]*/>")
_COLORS = re.compile(r'(fill|stroke)="([^"]+)"')
_BAR_LABEL = re.compile(r'<text(?=[^>]*fill="white")[^>]*>')


def small(svg: str) -> str:
    """The same picture in half the bytes: tenths of a pixel, no attributes that nothing here reads."""
    text = _NUMBERS.sub(lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), _ATTRIBUTES.sub("", svg))
    while (shorter := _EMPTY.sub("", text)) != text:
        text = shorter
    return text


def dark(svg: str) -> str:
    """The same picture for a dark page; the white labels inside bars stay white."""
    kept = _BAR_LABEL.sub(lambda found: found[0].replace('"white"', '"#fff"'), svg)
    return _COLORS.sub(lambda found: f'{found[1]}="{_DARK.get(found[2], found[2])}"', kept)


def main() -> None:
    """Draws both."""
    spark: Any = InProcess()
    with tempfile.TemporaryDirectory(prefix="kaput-picture-") as path:
        run = RunFolder(shutil.copytree(RECORDED, Path(path) / RECORDED.name))
        svg = small(to_svg([(run, analyse(check(run), spark))])) + "\n"
    for picture, text in ((LIGHT, svg), (DARK, dark(svg))):
        picture.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{picture}: {picture.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()

"""Makes docs/isolated-leader.svg, the picture of the README: the timeline of a run of leader-isolated-acks-1.

    kaput run leader-isolated-acks-1
    .venv/bin/python docs/picture.py runs/20261122T092249-leader-isolated-acks-1-6d5d92

It is what `kaput report RUN --format svg` prints, without what only a browser's reader of charts would miss.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from kaput.evidence.findings_file import read_findings
from kaput.evidence.folder import RunFolder
from kaput.report.images import to_svg

PICTURE = Path(__file__).with_name("isolated-leader.svg")
_ATTRIBUTES = re.compile(r' (?:aria-[a-z]+|role|class|pointer-events|stroke-miterlimit)="[^"]*"')
_NUMBERS = re.compile(r"-?\d+\.\d{2,}")
_EMPTY = re.compile(r"<g[^>]*/>|<g[^>]*></g>|<path[^>]* d=\"\"[^>]*/>")


def small(svg: str) -> str:
    """The same picture in half the bytes: tenths of a pixel, no attributes that nothing here reads."""
    text = _NUMBERS.sub(lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), _ATTRIBUTES.sub("", svg))
    while (shorter := _EMPTY.sub("", text)) != text:
        text = shorter
    return text


def main(folder: Path) -> None:
    """Draws it."""
    run = RunFolder(folder)
    PICTURE.write_text(small(to_svg([(run, read_findings(run.findings_path))])) + "\n", encoding="utf-8")
    sys.stdout.write(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

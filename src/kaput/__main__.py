"""The command `kaput`, also as `python -m kaput`. Ctrl-C during startup ends it without a traceback."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from kaput.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()

"""`python -m kaput`: the same as the command `kaput`."""

from __future__ import annotations

from kaput.cli.main import main

if __name__ == "__main__":
    main()

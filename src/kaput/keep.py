"""The public name of kaput.clients.keep: `from kaput import keep`, `kaput.keep.Producer` (docs/KEEP.md)."""

import sys
from typing import TYPE_CHECKING

from kaput.clients import keep

if TYPE_CHECKING:
    from kaput.clients.keep import *  # noqa: F403

sys.modules[__name__] = keep

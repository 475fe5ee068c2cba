"""What every array of the engine is made of: whole numbers of eight bytes, with one of them for null."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
NULL = -(2**63)  # stands for null in every array of numbers
MANY = 2  # of times: stands for itself and all above

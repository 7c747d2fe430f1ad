"""NumPy array types used by all packages."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
CellArray: TypeAlias = NDArray[np.int32]
"""Codes of cells, in 32 bits to save memory: there is one for each cell of each user."""
IndexArray: TypeAlias = NDArray[np.int32] | NDArray[np.int64] | NDArray[np.uint32]
"""Indices of columns or rows, of any of these types, so that callers need not convert."""

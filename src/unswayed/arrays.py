"""The types of NumPy arrays that every package names."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
CellArray: TypeAlias = NDArray[np.int32]
"""Codes of cells, half the size of other codes because there is one per user and cell played."""
IndexArray: TypeAlias = NDArray[np.int32] | NDArray[np.int64] | NDArray[np.uint32]
"""Indices of columns or rows in the type that their caller has, so that they need not be copied."""

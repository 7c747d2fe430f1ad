"""Benchmarks are scripts; their folder is not on the path unless one of them runs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

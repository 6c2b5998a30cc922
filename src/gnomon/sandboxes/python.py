"""`run_python`: code in any sandbox, and what it came to. How it is done is in `gnomon._python`."""

from __future__ import annotations

from gnomon._python.running import Failure, PythonResult, run_python, stream_python

__all__ = ["Failure", "PythonResult", "run_python", "stream_python"]

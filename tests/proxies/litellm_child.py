"""Runs LiteLLM's proxy until its standard input ends: the child process of `litellm_proxy.py`.

It runs under the interpreter that has LiteLLM, with the proxy's own command line.
"""

from __future__ import annotations

import os
import sys
import threading


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    threading.Thread(target=_end_with_input, daemon=True).start()
    from litellm import run_server  # slow to import

    run_server()


if __name__ == "__main__":
    main()

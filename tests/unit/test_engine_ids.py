"""Names that nobody has had before, also where a process cannot be told that it was forked."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from session_stage import loaded_again

from gnomon.engine import ids


def test_a_system_that_does_not_fork_has_ids_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "register_at_fork")
    again = loaded_again(ids)
    names = [again.new_id("ses") for _ in range(1_000)]
    assert len(set(names)) == 1_000
    assert all(name.startswith("ses_") for name in names)


FORKED = """
import os
from gnomon.engine.ids import new_id

new_id("ses")  # so that there are some that were drawn before
if (child := os.fork()) == 0:
    print(new_id("ses"), flush=True)
    os._exit(0)
os.waitpid(child, 0)
for _ in range(300):
    print(new_id("ses"))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system that does not fork")
def test_a_forked_process_does_not_give_the_names_of_its_parent() -> None:
    ended = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True)
    chances = [name.removeprefix("ses_")[12:] for name in ended.stdout.split()]
    assert len(set(chances)) == len(chances) == 301

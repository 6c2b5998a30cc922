"""What of the host a command is shown."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gnomon.sandboxes.process import ProcessSandbox


async def test_what_is_to_be_read_is_there_also_where_it_lies_in_the_folder_that_begins_empty() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        (Path(folder) / "told.txt").write_text("told")
        sandbox = ProcessSandbox(read=[folder], require="none")
        try:
            result = await sandbox.execute("cat", [f"{folder}/told.txt"], 10)
        finally:
            await sandbox.close()
    assert result.text == "told", result

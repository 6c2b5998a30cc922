"""The programs of the servers come whole or not at all, once, and whatever does not come is named."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from servers import install


def test_a_part_is_fetched_once(tmp_path: Path) -> None:
    made: list[Path] = []
    for _ in range(2):
        install.fetch(tmp_path / "cache" / "part", made.append)
    assert len(made) == 1
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == ["part"]


def test_a_part_that_fails_half_way_is_not_there(tmp_path: Path) -> None:
    def half(made: Path) -> None:
        (made / "half").write_text("x")
        raise install.CannotFetch("no network")

    with pytest.raises(install.CannotFetch, match="no network"):
        install.fetch(tmp_path / "part", half)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_of_two_that_fetch_at_once_one_does(tmp_path: Path) -> None:
    made: list[Path] = []

    def slowly(folder: Path) -> None:
        time.sleep(0.2)
        made.append(folder)

    both = [threading.Thread(target=install.fetch, args=(tmp_path / "part", slowly)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len(made) == 1


def test_what_cannot_be_fetched_is_named_and_the_rest_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    install.redis_folder().mkdir(parents=True)
    assert install.main() == 1
    assert "npm, which fetches them, is not installed" in capsys.readouterr().err


def test_a_client_that_fails_is_quoted() -> None:
    with pytest.raises(install.CannotFetch, match=r"redis: not fetched, python[\d.]* ended with 3:\nwhy"):
        install._run(
            "redis", [sys.executable, "-c", "import sys; print('why', file=sys.stderr); sys.exit(3)"]
        )


def test_nothing_is_fetched_by_whoever_only_looks(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import servers.install as i; print(i.npm_folder(), i.redis_folder())"]
    where = {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[1])}
    told = subprocess.run(command, env=where, capture_output=True, text=True, check=True).stdout
    assert told.count(str(tmp_path / "gnomon-test-servers")) == 2
    assert list(tmp_path.iterdir()) == []


def test_every_npm_package_is_pinned_by_hash_and_names_no_address() -> None:
    lock = json.loads(Path(install.__file__).with_name("npm").joinpath("package-lock.json").read_text())
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert len(packages) == 2
    for entry in packages.values():
        assert entry["integrity"].startswith("sha512-")
        assert "resolved" not in entry

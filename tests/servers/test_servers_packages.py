"""Programs of the system are installed where that is allowed, and whatever is missing is named."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from servers import packages, programs

# It says what it was asked for, and brings what it was asked for unless it is told not to.
APT_GET = """#!/bin/sh
echo "$*" >> "$0.log"
case "$*" in *" update"*) touch "$0.updated"; exit 0;; esac
if [ -e "$0.fails" ] && ! [ -e "$0.updated" ]; then echo "E: Unable to locate package" >&2; exit 100; fi
[ -e "$0.lies" ] && exit 0
for word; do case $word in
  bubblewrap) cp /bin/sh "${0%/*}/bwrap";;
  podman|runc) cp /bin/sh "${0%/*}/$word";;
esac; done
"""
# What it needs beside itself is the real thing.
NEEDED = ("env", "sh", "cp", "touch")


class Machine:
    """One with nothing on its path but what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in NEEDED:
            (folder / name).symlink_to(
                f"/bin/{name}" if os.path.exists(f"/bin/{name}") else f"/usr/bin/{name}"
            )

    def put(self, name: str, text: str = "#!/bin/sh\nexit 0\n") -> Path:
        path = self.folder / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    @property
    def asked(self) -> list[str]:
        log = self.folder / "apt-get.log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", "")
    monkeypatch.setattr(packages, "SYSTEM", ())
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return Machine(tmp_path)


def test_what_is_missing_is_installed(machine: Machine) -> None:
    machine.put("apt-get", APT_GET)
    machine.put("podman")
    assert packages.main() == 0
    assert packages.missing() == []
    assert [line.rpartition("recommends ")[2] for line in machine.asked] == ["bubblewrap runc"]


def test_nothing_is_asked_for_where_all_is_there(machine: Machine) -> None:
    machine.put("apt-get", APT_GET)
    for name in packages.PACKAGES:
        machine.put(name)
    assert packages.main() == 0
    assert machine.asked == []


def test_lists_of_packages_are_fetched_where_there_are_none(machine: Machine) -> None:
    machine.put("apt-get", APT_GET).with_name("apt-get.fails").touch()
    assert packages.main() == 0
    assert [" update" in line for line in machine.asked] == [False, True, False]


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_what_is_not_installed_is_named_and_fails_in_ci(
    ci: str, code: int, machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", ci)
    machine.put("apt-get", "#!/bin/sh\necho 'E: no network' >&2; exit 100\n")
    assert packages.main() == code
    said = capsys.readouterr().err
    assert "bubblewrap, podman, runc" in said
    assert "E: no network" in said
    assert ("are skipped" in said) is (code == 0)


def test_a_package_that_brings_no_program_is_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", "true")
    machine.put("apt-get", APT_GET).with_name("apt-get.lies").touch()
    assert packages.main() == 1
    assert "apt-get says that it has" in capsys.readouterr().err


def test_where_there_is_no_apt_get_it_says_so(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert packages.main() == 0
    assert "no apt-get here" in capsys.readouterr().err


@pytest.mark.parametrize("sudo", [None, "#!/bin/sh\nexit 1\n"], ids=["none", "with a password"])
def test_only_root_installs(
    sudo: str | None, machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    machine.put("apt-get", APT_GET)
    if sudo:
        machine.put("sudo", sudo)
    assert packages.main() == 0
    assert machine.asked == []
    assert "only root may" in capsys.readouterr().err


def test_sudo_that_asks_for_no_password_is_as_good_as_root(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    machine.put("apt-get", APT_GET)
    machine.put("sudo", '#!/bin/sh\n[ "$1" = -n ] && shift\n[ "$1" = true ] && exit 0\nexec "$@"\n')
    assert packages.main() == 0
    assert packages.missing() == []


def test_a_test_that_needs_one_is_skipped_and_fails_in_ci(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(pytest.skip.Exception, match="bwrap is not installed"):
        programs.system_program("bwrap")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="make servers"):
        programs.system_program("bwrap")
    there = machine.put("bwrap")
    assert programs.system_program("bwrap") == there

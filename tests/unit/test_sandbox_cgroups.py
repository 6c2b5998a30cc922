"""Control groups of every kind, found in what the kernel says of mounts, and used as files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gnomon.sandboxes import _cgroups, _survey
from gnomon.sandboxes._cgroups import Group, Groups, Place, place_of, places
from gnomon.sandboxes._owners import in_a_name
from gnomon.sandboxes.process import ProcessSandbox

SIGNS = "rw,nosuid,nodev,noexec,relatime"


class Tree:
    """A tree of groups as files, with what the kernel would say of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mounts: list[str] = [f"21 1 8:1 / {folder}/root rw - ext4 /dev/sda1 rw"]
        self.own: list[str] = []

    def mount(self, name: str, kind: str, options: str, *, root: str = "/") -> Path:
        made = self.folder / name
        made.mkdir(parents=True)
        point = str(made).replace(" ", "\\040")
        self.mounts.append(f"30 21 0:26 {root} {point} {SIGNS} shared:9 - {kind} {kind} {options}")
        return made

    def group(self, folder: Path, *, passes_on: str = "") -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").touch()
        (folder / "cgroup.subtree_control").write_text(passes_on)
        return folder

    def places(self) -> tuple[list[Place], str]:
        (self.folder / "mountinfo").write_text("\n".join(self.mounts) + "\n")
        (self.folder / "own").write_text("\n".join(self.own) + "\n")
        return places(str(self.folder / "mountinfo"), str(self.folder / "own"))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "a tree")


def test_version_1_has_a_folder_for_each_controller(tree: Tree) -> None:
    (tree.folder).mkdir()
    for name in ("memory", "pids"):
        mounted = tree.mount(name, "cgroup", f"rw,{name}")
        tree.group(mounted / "user")
        tree.own.append(f"4:{name}:/user")
    found, why = tree.places()
    assert found == [
        Place(str(tree.folder / "memory/user"), ("memory",), 1),
        Place(str(tree.folder / "pids/user"), ("pids",), 1),
    ]
    assert why == ""


def test_version_2_takes_the_nearest_group_above_that_hands_controllers_on(tree: Tree) -> None:
    tree.folder.mkdir()
    mounted = tree.mount("cgroup", "cgroup2", "rw,nsdelegate")
    tree.group(mounted, passes_on="cpu memory pids")
    tree.group(mounted / "user.slice/app.slice", passes_on="memory pids")
    tree.group(mounted / "user.slice/app.slice/term.scope")
    tree.own.append("0::/user.slice/app.slice/term.scope")
    found, why = tree.places()
    assert found == [Place(str(mounted / "user.slice/app.slice"), ("memory", "pids"), 2)]
    assert why == ""


def test_both_versions_at_once(tree: Tree) -> None:
    tree.folder.mkdir()
    memory = tree.mount("memory", "cgroup", "rw,memory")
    tree.group(memory)
    unified = tree.mount("unified", "cgroup2", "rw")
    tree.group(unified, passes_on="pids")
    tree.own += ["3:memory:/", "0::/"]
    found, why = tree.places()
    assert found == [Place(str(memory), ("memory",), 1), Place(str(unified), ("pids",), 2)]
    assert why == ""


def test_a_namespace_of_groups_shows_ours_as_the_root(tree: Tree) -> None:
    tree.folder.mkdir()
    mounted = tree.mount("memory", "cgroup", "rw,memory", root="/docker/abc")
    tree.group(mounted)
    tree.own.append("3:memory:/")
    assert tree.places()[0] == [Place(str(mounted), ("memory",), 1)]


def test_a_second_group_of_version_2_would_take_the_command_out_of_the_first(tree: Tree) -> None:
    tree.folder.mkdir()
    mounted = tree.mount("cgroup", "cgroup2", "rw,nsdelegate")
    tree.group(mounted, passes_on="memory pids")
    tree.group(mounted / "user.slice", passes_on="memory")
    tree.group(mounted / "user.slice/term.scope")
    tree.own.append("0::/user.slice/term.scope")
    found, why = tree.places()
    assert found == [Place(str(mounted / "user.slice"), ("memory",), 2)]
    assert why == "no group for pids can be made where there is one for memory"


def test_what_cannot_be_had_is_said(tree: Tree, tmp_path: Path) -> None:
    tree.folder.mkdir()
    assert tree.places() == ([], "no control groups are mounted")
    mounted = tree.mount("cgroup", "cgroup2", "rw")
    tree.group(mounted, passes_on="memory")
    tree.own.append("0::/")
    found, why = tree.places()
    assert [place.controllers for place in found] == [("memory",)]
    assert why == "no group for pids can be made by this user"
    assert places(str(tmp_path / "none"), str(tmp_path / "none"))[0] == []


def test_limits_are_written_as_each_version_wants_them(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    group = Group([Place(str(one), ("memory",), 1), Place(str(two), ("pids", "memory"), 2)])
    assert [Path(path).name for path in group.to_join] == ["tasks", "cgroup.procs"]
    first, second = (Path(path).parent for path in group.to_join)
    _touch(first, "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control")
    _touch(second, "memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "memory.events")
    group.limit(memory_bytes=1 << 20, processes=7)
    assert (first / "memory.limit_in_bytes").read_text() == str(1 << 20)
    assert (first / "memory.memsw.limit_in_bytes").read_text() == str(1 << 20)
    assert (second / "pids.max").read_text() == "7"
    assert group.kills_for_memory() == 0
    (first / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert group.kills_for_memory() == 2


def test_kills_of_version_2_are_counted(tmp_path: Path) -> None:
    group = Group([Place(str(tmp_path), ("memory",), 2)])
    folder = Path(group.to_join[0]).parent
    _touch(folder, "memory.max", "memory.swap.max", "memory.oom.group")
    (folder / "memory.events").write_text("low 0\nhigh 0\nmax 12\noom 3\noom_kill 1\n")
    group.limit(memory_bytes=5 << 20, processes=1)
    assert (folder / "memory.max").read_text() == str(5 << 20)
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "memory.oom.group").read_text() == "1"
    assert group.kills_for_memory() == 1


def _touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch()


def test_groups_of_programs_that_are_gone_are_removed_and_others_stay(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    here = in_a_name().partition("-")[2]
    staying = [f"gnomon-{in_a_name()}-bbbb", f"gnomon-x-{here}-cccc", "gnomon-x-cccc", "other-1-1-dddd"]
    for name in (f"gnomon-{gone.pid}-{here}-aaaa", *staying):
        (tmp_path / name).mkdir()
    groups = Groups([Place(str(tmp_path), ("memory",), 1)])
    assert sorted(os.listdir(tmp_path)) == sorted(staying)
    taken = groups.take(memory_bytes=1 << 20, processes=1)
    assert taken is not None
    groups.give_back(taken)
    assert groups.take(memory_bytes=1 << 20, processes=1) is taken
    groups.remove()
    assert sorted(os.listdir(tmp_path)) == sorted(staying)


def test_where_no_group_can_be_made_any_more_there_is_none(tmp_path: Path) -> None:
    groups = Groups([Place(str(tmp_path / "missing"), ("memory",), 1)])
    assert groups.take(memory_bytes=1 << 20, processes=1) is None
    assert Groups([]).take(memory_bytes=1 << 20, processes=1) is None


_BORN = """
import os, sys
sys.path.insert(0, sys.argv[1])
from _launcher import kernel
if (pid := kernel.fork_into(sys.argv[2])) == 0:
    with open("/proc/self/cgroup") as file:
        print(file.read(), flush=True)
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_fork_begins_in_its_group_of_version_2() -> None:
    group = _real_group_of_version_2()
    try:
        (folder,) = (str(Path(path).parent) for path in group.to_join)
        command = [sys.executable, "-I", "-c", _BORN, str(Path(_cgroups.__file__).parent), folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert f"/{Path(folder).name}\n" in done.stdout
        assert done.stdout.endswith("\n7\n")
    finally:
        assert group.remove()


async def test_a_command_is_in_its_group_of_version_2(monkeypatch: pytest.MonkeyPatch) -> None:
    group = _real_group_of_version_2()
    folder = Path(group.to_join[0]).parents[1]
    group.remove()
    monkeypatch.setattr(_survey, "places", lambda: ([Place(str(folder), (), 2)], ""))
    sandbox = ProcessSandbox(without={"bubblewrap"})  # which would show it a group of its own as the root
    try:
        result = await sandbox.execute("cat", ["/proc/self/cgroup"], 20.0)
        assert f"/gnomon-{in_a_name()}-" in result.text
    finally:
        await sandbox.close()


def _real_group_of_version_2() -> Group:
    own = place_of(os.getpid(), "", "")
    if own is None:
        pytest.skip("no control groups of version 2 are mounted here")
    try:
        return Group([own])
    except OSError as error:
        pytest.skip(f"no group of version 2 can be made here: {error.strerror}")

"""What is loaded when: a fresh process, and the list of modules it has gained."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

import msgspec
import pytest

HEAVY = ("aiohttp", "click", "rich", "prompt_toolkit")
SELDOM_NEEDED = ("json", "difflib", "importlib.metadata", "tomllib")

BACK_ENDS = tuple(
    f"gnomon.{folder}"
    for folder in (
        "providers",
        "embedders",
        "counters",
        "storage",
        "vector_stores",
        "knowledge",
        "guardrails",
        "hooks",
        "sandboxes",
        "compactors",
        "drivers",
    )
)

RUNTIME = {"gnomon.drivers", "gnomon.drivers.embedded"}
"""What runs sessions in this process, and so is part of every agent."""

HELP = """
import sys
from gnomon.cli import main
sys.argv = ["gnomon", "--help"]
try:
    assert main() in (0, None)
except SystemExit as end:
    assert end.code in (0, None), end.code
"""

_DUMP = """
import sys
before = set(sys.modules)
{code}
print("\\n=====", *sorted(set(sys.modules) - before), sep="\\n")
"""


def gained(code: str) -> list[str]:
    """The modules that this code has loaded by its end, in a process of its own."""
    # `-S` would hide what is installed, so `site` runs; what it loads is there before.
    command = [sys.executable, "-c", _DUMP.format(code=code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.rpartition("\n=====\n")[2].split()


def among(modules: Iterable[str], unwanted: Iterable[str]) -> list[str]:
    """Those of the modules that are, or stand below, an unwanted one."""
    unwanted = tuple(unwanted)
    return [name for name in modules if any(f"{name}.".startswith(f"{bad}.") for bad in unwanted)]


# --- import gnomon ----------------------------------------------------------


def test_importing_gnomon_loads_nothing_else_of_it() -> None:
    assert among(gained("import gnomon"), ["gnomon"]) == ["gnomon"]


def test_importing_gnomon_loads_no_library_and_no_event_loop() -> None:
    assert among(gained("import gnomon"), [*HEAVY, "asyncio", "msgspec"]) == []


def test_importing_gnomon_costs_no_more_than_importing_typing() -> None:
    """The whole list: another module at the top of `__init__.py` has to be argued for here."""
    assert set(gained("import gnomon")) - set(gained("import typing")) <= {"__future__", "gnomon"}


# --- an agent ---------------------------------------------------------------

AGENT = "from gnomon import Agent, tool; Agent('demo')"


def test_an_agent_loads_no_http_client_and_no_command_line() -> None:
    assert among(gained(AGENT), HEAVY) == []


def test_an_agent_loads_no_other_back_end_than_its_own() -> None:
    loaded = among(gained(AGENT), BACK_ENDS)
    assert "gnomon.providers.demo" in loaded
    public = [name for name in loaded if not name.rpartition(".")[2].startswith("_")]
    assert set(public) == {"gnomon.providers", "gnomon.providers.demo"} | RUNTIME


def test_an_agent_loads_no_surface_and_no_test_kit() -> None:
    above = ["gnomon.cli", "gnomon.sync", "gnomon.testing", "gnomon.pytest_plugin", "gnomon.config", "pytest"]
    assert among(gained(AGENT), above) == []


@pytest.mark.parametrize("module", SELDOM_NEEDED)
def test_an_agent_does_not_load_what_is_seldom_needed(module: str) -> None:
    assert among(gained(AGENT), [module]) == []


# --- the command ------------------------------------------------------------


def test_the_help_loads_neither_event_loop_nor_screen_nor_agent() -> None:
    loaded = gained(HELP)
    assert "gnomon.cli.app" in loaded
    assert among(loaded, ["asyncio", "rich", "prompt_toolkit", "aiohttp", "msgspec"]) == []
    assert among(loaded, ["gnomon.agent", "gnomon.engine", "gnomon.registry", *BACK_ENDS]) == []


# --- the scales themselves --------------------------------------------------


def test_a_module_that_is_loaded_is_seen() -> None:
    loaded = gained("import gnomon\nimport difflib, aiohttp.http")
    assert among(loaded, HEAVY)[0] == "aiohttp"
    assert among(loaded, SELDOM_NEEDED)


def test_a_name_that_only_begins_alike_is_not_counted() -> None:
    assert among(["richness", "rich.text", "clicker", "click"], HEAVY) == ["rich.text", "click"]


def test_code_that_fails_fails_the_measurement() -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        gained("1 / 0")


def test_every_folder_of_back_ends_is_weighed() -> None:
    from gnomon import registry

    assert {f"gnomon.{kind}" for kind in registry.KINDS} - {"gnomon.tools"} == set(BACK_ENDS)
    assert msgspec.__name__ in among(gained("import gnomon.registry"), ["msgspec"])

"""How the tests run: async functions without a plugin, no network but loopback, sampled properties.

- A plain `async def test_…` runs under `asyncio.run`, and fails when it leaves a task behind.
  The checks of the contract suites are left to the plugin that `gnomon` itself ships.
- A connection to anything but this machine is refused.
- Servers that tests shared end with them.
- Property tests take 50 examples, or 2,000 with `GNOMON_SOAK=1`; with `GNOMON_TEST_SEED`
  set, a run can be repeated exactly.
- What was skipped is counted by its reason, and what failed stands last, where it is looked for.
"""

from __future__ import annotations

import asyncio
import inspect
import ipaddress
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable

import hypothesis
import pytest

import counted

SEED = os.environ.get("GNOMON_TEST_SEED", "")
SOAK = os.environ.get("GNOMON_SOAK") == "1"

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in a job in the background. What tests start would ignore Ctrl-C as well, which some are about.
    signal.signal(signal.SIGINT, signal.default_int_handler)

LIMIT_S = float(os.environ.get("GNOMON_TEST_LIMIT_S", 240 if SOAK else 120))

# A loaded machine is no defect of what is tested.
_PATIENT = (hypothesis.HealthCheck.too_slow,)

hypothesis.settings.register_profile(
    "sampled",
    max_examples=50,
    deadline=None,
    suppress_health_check=_PATIENT,
    # An example remembered from an earlier run would make a seeded one differ.
    **({"database": None} if SEED else {}),
)
hypothesis.settings.register_profile("soak", max_examples=2000, deadline=None, suppress_health_check=_PATIENT)
hypothesis.settings.load_profile("soak" if SOAK else "sampled")


# --- async tests ------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj) or _is_contract_check(pyfuncitem):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(_run(pyfuncitem.obj, {name: pyfuncitem.funcargs[name] for name in names}))
    return True


def _is_contract_check(item: pytest.Function) -> bool:
    return getattr(item.cls, "__gnomon_contract__", None) is not None


async def _run(test: Callable[..., object], arguments: dict[str, object]) -> None:
    async with asyncio.timeout(LIMIT_S):  # a test that hangs must fail, not hold up the others
        await test(**arguments)  # type: ignore[misc]
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"the test left {len(left)} task(s) pending: {left}"


# --- no network but loopback ------------------------------------------------

_real = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex")}


LIVE = os.environ.get("GNOMON_LIVE") == "1"  # `make live`: the real services may be asked


def _guarded(name: str) -> Callable[[socket.socket, object], object]:
    def connect(self: socket.socket, address: object) -> object:
        if not LIVE and not _is_local(self, address):
            # Not an `Exception`: code that shrugs off failures must not shrug off this one.
            pytest.fail(f"a test tried to connect to {address!r}: only loopback is allowed")
        return _real[name](self, address)

    return connect


def _is_local(sock: socket.socket, address: object) -> bool:
    if sock.family == getattr(socket, "AF_UNIX", None):
        return True
    host = address[0] if isinstance(address, tuple) and address else ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


def pytest_configure() -> None:
    for name in _real:
        setattr(socket.socket, name, _guarded(name))


def pytest_unconfigure() -> None:
    for name in _real:
        if name in vars(socket.socket):
            delattr(socket.socket, name)
    if (servers := sys.modules.get("servers")) is not None:  # most runs have none
        servers.stop_shared()


# --- repeatable properties --------------------------------------------------


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not SEED:
        return
    for item in items:
        test = getattr(item, "obj", None)
        if getattr(test, "is_hypothesis_test", False):
            hypothesis.seed(SEED)(getattr(test, "__func__", test))


# --- how much was counted -----------------------------------------------------
# With xdist the tests run in workers; each tells what it counted to the process that prints.


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["exchanges"], output["notes"] = dict(counted.exchanges), dict(counted.notes)
        output["kills"] = {what: dict(counts) for what, counts in counted.kills.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    output = getattr(node, "workeroutput", {})
    counted.exchanges.update(output.get("exchanges", {}))
    counted.notes.update(output.get("notes", {}))
    for what, counts in output.get("kills", {}).items():
        counted.kills.setdefault(what, Counter()).update(counts)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name, what in sorted(counted.notes.items()):
        terminalreporter.write_line(f"recorded traffic, {name}: {what}")
    for what, counts in sorted(counted.kills.items()):
        told = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
        terminalreporter.write_line(f"killed, {what}: {told}")
    _count_the_skipped(terminalreporter)
    if counted.exchanges:
        counts = ", ".join(f"{count} by {who}" for who, count in sorted(counted.exchanges.items()))
        terminalreporter.write_line(f"exchanges with real llama.cpp servers: {counts}")


# --- the summary --------------------------------------------------------------


def _count_the_skipped(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped:
        return
    terminalreporter.section("skipped, and why")
    for reason, count in Counter(_reason(report) for report in skipped).most_common():
        terminalreporter.write_line(f"{count:5d}  {reason}")


def _reason(report: pytest.TestReport) -> str:
    """Suites that lack the same thing are counted together."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    text = text.removeprefix("Skipped: ")
    _, lacks, power = text.partition(" does not offer ")
    return f"does not offer {power}" if lacks else text

"""`gnomon replay`: a kept run goes again, without a model, a key or a tool."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import Gnomon, failed_in_one_line

from gnomon import Agent
from gnomon.engine.ledger import Ledger
from gnomon.types.events import Compacted, LedgerEntry
from storing import opened, sqlite_url

QUESTION = "what is 12*(3+4)?"


@pytest.fixture
def session_id(gnomon: Gnomon) -> str:
    return json.loads(gnomon("--output", "json", QUESTION).stdout)["session_id"]


def own_file(gnomon: Gnomon) -> Path:
    return Path(gnomon.env["HOME"]) / ".local" / "share" / "gnomon" / "gnomon.db"


def test_a_run_goes_again_as_it_went(gnomon: Gnomon, session_id: str) -> None:
    done = gnomon("replay", session_id[:20])
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == f"session {session_id[:16]}: 1 turn, 2 rounds: no difference\n"
    for flag in (["--json"], ["--output", "json"]):
        told = json.loads(gnomon("replay", session_id, *flag).stdout)
        assert (told["session_id"], told["turns"], told["rounds"]) == (session_id, 1, 2)
        assert (told["first"], told["differences"], told["skipped"]) == (None, [], [])


def test_it_needs_no_model_that_can_be_asked(gnomon: Gnomon, session_id: str) -> None:
    done = gnomon("replay", session_id, GNOMON_MODEL="openai:gpt-5")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        (["-m", "openai:gpt-5"], "model", ["another model is asked", "recorded: demo:demo", "openai:gpt-5"]),
        (["-s", "Be \x1b[31mkind."], "instructions", ["instructions changed: +Be [31mkind."]),
        (["-t", "now"], "tools", ["tool 'calculate' is not offered any more"]),
    ],
)
def test_the_first_difference_is_said_and_the_command_fails(
    gnomon: Gnomon, session_id: str, options: list[str], kind: str, said: list[str]
) -> None:
    done = gnomon("replay", session_id, *options)
    assert done.returncode == 1
    text = done.stdout.decode()
    assert "\x1b" not in text
    for words in ["turn 1, round 1 (event 3): ", *said]:
        assert words in text
    told = json.loads(gnomon("replay", session_id, *options, "--json").stdout)
    assert told["first"]["kind"] == kind
    assert told["differences"][0] == told["first"]


def test_a_store_and_an_archive_can_be_named(gnomon: Gnomon, session_id: str, tmp_path: Path) -> None:
    url, archive = f"sqlite:///{own_file(gnomon)}", tmp_path / "all.jsonl"
    assert gnomon("db", "export", url, str(archive)).returncode == 0
    own_file(gnomon).rename(tmp_path / "moved.db")
    failed_in_one_line(gnomon("replay", session_id), 1, "no session")
    assert gnomon("replay", session_id, "--store", f"sqlite:///{tmp_path}/moved.db").returncode == 0
    done = gnomon("replay", session_id, "--archive", str(archive))
    assert done.returncode == 0, done.stderr
    failed_in_one_line(gnomon("replay", session_id, "--archive", str(tmp_path / "gone")), 2, "cannot be read")


async def orders(url: str, *entries: LedgerEntry) -> None:
    """A session that another program has, with these entries at its end."""
    async with Agent("demo", name="orders", tools=["calculate", "now"], storage=url) as agent:
        await agent.session("order-17").run(QUESTION)
    async with opened(url) as store:
        ledger = await Ledger.open(store, "order-17")
        await ledger.receive(*entries)


def test_what_is_not_there_is_said(gnomon: Gnomon, session_id: str) -> None:
    failed_in_one_line(gnomon("replay", "ses_0nobody"), 1, "no session")
    done = gnomon("replay", "ses_0nobody", "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (1, "not_found")
    failed_in_one_line(gnomon("replay", session_id, "--agent", "gone.toml"), 2, "gone.toml")


async def test_a_session_of_another_agent_is_replayed_with_its_file(gnomon: Gnomon, tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "orders.db")
    await orders(url)
    typed = ["replay", "order-17", "--store", url]
    failed_in_one_line(gnomon(*typed), 2, "of the agent 'orders'", "--agent FILE")
    agents, tools = gnomon.folder / "agents.toml", 'tools = ["calculate", "now"]'
    agents.write_text(f'[agents.orders]\nmodel = "demo"\n{tools}\n[agents.other]\nmodel = "demo"\n')
    done = gnomon(*typed, "--agent", "agents.toml")
    assert (done.returncode, done.stderr) == (0, b""), done.stdout
    agents.write_text(f'name = "billing"\nmodel = "demo"\n{tools}\n')  # the only one in it
    done = gnomon(*typed, "--agent", "agents.toml")
    assert done.returncode == 1
    assert done.stdout.decode() == (
        "session order-17: 1 turn, 1 difference\nturn 1, round 1 (event 3): the agent has another name\n"
        "  recorded: orders\n  now:      billing\n"
    )


async def test_what_is_not_replayed_is_said_beside_it(gnomon: Gnomon, tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "orders.db")
    await orders(url, Compacted("", 1, 9, 8))
    (gnomon.folder / "agents.toml").write_text(
        'name = "orders"\nmodel = "demo"\ntools = ["calculate", "now"]\n'
    )
    typed = ["replay", "order-17", "--store", url, "--agent", "agents.toml"]
    done = gnomon(*typed)
    assert (done.returncode, done.stdout) == (0, b"session order-17: 1 turn, 2 rounds: no difference\n")
    said = done.stderr.decode()
    assert said.startswith("gnomon: not replayed: turn 1 (event ")
    assert said.endswith("the compaction is taken as it was recorded\n")
    assert gnomon(*typed, "-q").stderr == b""
    assert len(json.loads(gnomon(*typed, "--json").stdout)["skipped"]) == 1

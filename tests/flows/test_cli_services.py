"""A service that fails behind the command: one sentence that says whose failure it is and what to do."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from command import Gnomon, failed_in_one_line
from small_server import Answer, answering, models

KEY = "sk-plain-words-0123456789"


def error(status: int, message: str, code: str | None = None, **headers: str) -> Answer:
    body = {"error": {"message": message, "type": "invalid_request_error", "code": code}}
    return Answer(json.dumps(body).encode(), status, headers=headers)


def everywhere(answer: Answer) -> dict[str, Answer]:
    """The same answer, whichever of its interfaces a provider uses."""
    return dict.fromkeys(("/v1/responses", "/v1/chat/completions", "/v1/messages"), answer)


def asked(
    gnomon: Gnomon, url: str, model: str = "openai:gpt-x", **env: str
) -> subprocess.CompletedProcess[bytes]:
    """A question to a provider whose address is the server's; for Anthropic it has no /v1."""
    bases = {"OPENAI_BASE_URL": url, "ANTHROPIC_BASE_URL": url.removesuffix("/v1")}
    keys = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    return gnomon("-m", model, "hello", **(keys | bases | env))


def told(done: subprocess.CompletedProcess[bytes], *said: str) -> None:
    """The failure in one line, exit code 1, and never the key."""
    failed_in_one_line(done, 1, *said)
    assert KEY.encode() not in done.stderr
    assert len(done.stderr) < 700


@pytest.mark.parametrize(
    ("model", "variable"), [("openai:gpt-x", "OPENAI_API_KEY"), ("anthropic:c", "ANTHROPIC_API_KEY")]
)
def test_no_key_names_the_variable_to_set(gnomon: Gnomon, model: str, variable: str) -> None:
    told(gnomon("-m", model, "hello"), model.partition(":")[0], variable)


@pytest.mark.parametrize("model", ["openai:gpt-x", "anthropic:c"])
def test_a_wrong_key_is_told_with_vendor_status_and_request(gnomon: Gnomon, model: str) -> None:
    refusal = error(
        401, f"Incorrect API key provided: {KEY}", **{"x-request-id": "req_77", "request-id": "req_77"}
    )
    with answering(everywhere(refusal)) as server:
        done = asked(gnomon, server.url, model)
    vendor = model.partition(":")[0]
    told(done, f"{vendor}: ", "status 401", "req_77", f"check the key for {vendor}")


@pytest.mark.parametrize("model", ["openai:gpt-x", "anthropic:c"])
def test_an_unknown_model_is_told_with_where_to_find_others(gnomon: Gnomon, model: str) -> None:
    vendor, _, name = model.partition(":")
    with answering(everywhere(error(404, f"The model {name} does not exist", "model_not_found"))) as server:
        done = asked(gnomon, server.url, model)
    told(done, f"{vendor}: ", "status 404", f"gnomon models {vendor}")


@pytest.mark.parametrize("model", ["openai:gpt-x", "anthropic:c", "compatible:m"])
def test_a_host_that_cannot_be_reached_is_told_with_its_address(gnomon: Gnomon, model: str) -> None:
    nobody = "http://127.0.0.1:9/v1"
    done = asked(gnomon, nobody, model, COMPATIBLE_BASE_URL=nobody)
    told(done, f"{model.partition(':')[0]}: ", "127.0.0.1:9")


@pytest.mark.parametrize("model", ["openai:gpt-x", "anthropic:c"])
@pytest.mark.parametrize("status", [200, 502])
def test_a_web_page_in_place_of_an_answer_is_told_as_one(gnomon: Gnomon, model: str, status: int) -> None:
    page = Answer(b"<html><head><title>Sign in</title></head><body>\n</body></html>", status, "text/html")
    with answering(everywhere(page)) as server:
        done = asked(gnomon, server.url, model)
    told(done, f"{model.partition(':')[0]}: ", "Sign in", f"status {status}")
    assert b"<html" not in done.stderr


def test_a_redirect_is_not_followed_with_the_key(gnomon: Gnomon) -> None:
    with answering({}) as other:
        moved = Answer(b"", 302, "text/plain", {"location": f"{other.url}/responses"})
        with answering(everywhere(moved)) as server:
            told(asked(gnomon, server.url), "openai: ", "302")
    assert other.asked == []


def test_json_that_breaks_off_is_told_as_such(gnomon: Gnomon) -> None:
    with answering(everywhere(Answer(b'data: {"type": "respo\n\n', kind="text/event-stream"))) as server:
        told(asked(gnomon, server.url), "openai: ")


def test_an_address_in_the_config_is_used_and_its_key_is_sent(gnomon: Gnomon) -> None:
    config = Path(gnomon.env["XDG_CONFIG_HOME"]) / "gnomon" / "config.toml"
    config.parent.mkdir(parents=True)
    with answering(everywhere(error(401, "no"))) as server:
        config.write_text(f"[providers.openai]\nbase_url = '{server.url}'\nkey = '{KEY}'\n")
        told(gnomon("-m", "openai:gpt-x", "hello"), "openai: ", "status 401")
    sent = {name.lower(): value for name, value in server.asked[0].headers.items()}
    assert sent["authorization"] == f"Bearer {KEY}"


def test_a_program_is_told_the_same_in_json(gnomon: Gnomon) -> None:
    with answering(everywhere(error(401, "no", **{"x-request-id": "req_1"}))) as server:
        done = gnomon(
            "-m", "openai:gpt-x", "--output", "json", "hi", OPENAI_API_KEY=KEY, OPENAI_BASE_URL=server.url
        )
    failure = json.loads(done.stdout)["error"]
    assert done.returncode == 1
    assert failure["code"] == "unauthorized"
    assert failure["retryable"] is False
    assert re.search("check the key", failure["hint"])


@pytest.mark.parametrize("provider", ["openai", "anthropic", "compatible"])
@pytest.mark.parametrize("body", [b"<html>Sign in</html>", b'{"data": [{"id": "\xff"}]}', b'{"data": 5}'])
def test_a_list_of_models_that_is_none_is_told_as_a_wrong_address(
    gnomon: Gnomon, provider: str, body: bytes
) -> None:
    page = Answer(body, headers={"x-request-id": "req_9"})
    with answering({"/v1/models": page, "/v1/models?limit=1000": page}) as server:
        env = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "OPENAI_BASE_URL": server.url}
        env |= {"COMPATIBLE_BASE_URL": server.url, "ANTHROPIC_BASE_URL": server.url.removesuffix("/v1")}
        done = gnomon("models", provider, **env)
    told(done, f"{provider}: the answer cannot be read", "status 200, request req_9", "right base_url?")


@pytest.mark.parametrize(
    ("status", "hint"), [(429, "ask again in 7 s, or less often"), (529, "ask again in 7 s")]
)
def test_a_busy_service_is_told_with_when_to_ask_again(gnomon: Gnomon, status: int, hint: str) -> None:
    with answering(everywhere(error(status, "slow down", **{"retry-after": "7"}))) as server:
        told(asked(gnomon, server.url), f"status {status}", f"({hint})")


def test_a_server_that_speaks_no_tls_is_told_as_such(gnomon: Gnomon) -> None:
    with answering({}) as server:
        done = asked(gnomon, server.url.replace("http:", "https:"))
    told(done, "is not secure: ")
    assert b"operation not permitted" not in done.stderr


# --- Ollama, which needs no key and is found by itself ------------------------------


def ollama_says(text: str) -> Answer:
    lines = [
        {"model": "qwen3:8b", "message": {"role": "assistant", "content": text}, "done": False},
        {"model": "qwen3:8b", "message": {"role": "assistant", "content": ""}, "done": True},
    ]
    return Answer("".join(json.dumps(line) + "\n" for line in lines).encode(), kind="application/x-ndjson")


@pytest.fixture
def patient(gnomon: Gnomon, tmp_path: Path) -> Gnomon:
    """On a loaded machine a server may need more than a command has time for."""
    code = "import gnomon.cli.servers\ngnomon.cli.servers._LIMIT_S = 5.0\n"
    (tmp_path / "sitecustomize.py").write_text(code)
    gnomon.env["PYTHONPATH"] = str(tmp_path)
    return gnomon


def test_an_ollama_server_answers_when_nobody_is_named(patient: Gnomon) -> None:
    del patient.env["GNOMON_MODEL"]
    paths = {
        "/v1/models": models("nomic-embed-text:latest", "qwen3:8b"),
        "/api/chat": ollama_says("from here"),
    }
    with answering(paths) as server:
        done = patient("--output", "json", "hello", OLLAMA_HOST=f"0.0.0.0:{server.port}")
        doctor = json.loads(patient("doctor", "--output", "json", OLLAMA_HOST=f":{server.port}").stdout)
    told = json.loads(done.stdout)
    assert (told["provider"], told["answer"]) == ("ollama", "from here")
    asked_for = [json.loads(request.body)["model"] for request in server.asked if request.path == "/api/chat"]
    assert asked_for == ["qwen3:8b"]
    assert doctor["model"]["name"] == "ollama:qwen3:8b"
    assert doctor["model"]["problem"] is None


def test_an_ollama_server_behind_a_path_is_found_too(patient: Gnomon) -> None:
    with answering({"/gpu/v1/models": models("qwen3:8b")}) as server:
        address = f"http://127.0.0.1:{server.port}/gpu"
        doctor = json.loads(patient("doctor", "--output", "json", OLLAMA_HOST=address).stdout)
    found = next(each for each in doctor["servers"] if each["provider"] == "ollama")
    assert (found["port"], found["models"]) == (server.port, ["qwen3:8b"])


def test_ollama_that_does_not_run_is_told_with_how_to_start_it(gnomon: Gnomon) -> None:
    told(
        gnomon("-m", "ollama:qwen3:8b", "hello", OLLAMA_HOST=":9"), "ollama: ", "127.0.0.1:9", "ollama serve"
    )


def test_a_model_that_ollama_does_not_have_is_told_with_how_to_fetch_it(gnomon: Gnomon) -> None:
    missing = Answer(b'{"error":"model \'qwen9\' not found"}', 404)
    with answering({"/api/chat": missing}) as server:
        done = gnomon("-m", "ollama:qwen9", "hello", OLLAMA_HOST=f":{server.port}")
    told(done, "ollama: model 'qwen9' not found", "status 404", "`ollama pull qwen9`")


def test_ollama_without_a_model_says_where_the_names_are(gnomon: Gnomon) -> None:
    failed_in_one_line(gnomon("-m", "ollama", "hello"), 2, "no model of its own", "gnomon models ollama")


def test_the_models_of_ollama_are_listed(gnomon: Gnomon) -> None:
    tags = {"models": [{"name": "qwen3:8b", "model": "qwen3:8b"}, {"name": "llama3.2:latest"}]}
    with answering({"/api/tags": Answer(json.dumps(tags).encode())}) as server:
        done = gnomon("models", "ollama", OLLAMA_HOST=f"localhost:{server.port}")
    assert done.stdout == b"ollama:qwen3:8b\nollama:llama3.2:latest\n"

import json
from pathlib import Path

import pytest
from tests.support.agents import calls_of, lines, recorded, stand_in
from tests.support.asking import ask, failure_of, make_request, make_target

from agentv.messages.transcripts.steps import Transcript
from agentv.providers.agents.pi import PiSettings, key_name, pi_arguments, read_pi
from agentv.types.json_value import JsonObject
from agentv.types.usage import Usage

FIXED = ["--mode", "json", "--print", "--no-session"]


def test_a_recorded_run_is_read_whole(tmp_path: Path) -> None:
    agent = stand_in(tmp_path / "agent", recorded("pi"))

    response = ask(make_target("pi", PiSettings(executable=agent.program)), home=tmp_path)

    assert response.text == "The amount is in notes.txt, and new.txt is written."
    assert calls_of(response.output_messages) == [
        (
            "bash",
            {"command": "printf '20 euros\\n' > notes.txt && cat notes.txt", "description": "Look"},
            "20 euros\n",
        ),
        (
            "bash",
            {"command": "cat missing.txt", "description": "Look"},
            {"error": "cat: missing.txt: No such file or directory\n\n\nCommand exited with code 1"},
        ),
        ("write", {"path": "new.txt", "content": "new\n"}, "Successfully wrote 4 bytes to new.txt"),
    ]
    assert response.usage == Usage(input=400, output=40, cached_input=160, total=440, requests=4)
    assert response.cost_usd == pytest.approx(4 * (60 * 1 + 10 * 2 + 40 * 0.5) / 1_000_000)
    assert (response.model, response.finish_reason) == ("fake-model", "stop")
    assert f'"id":"{response.session}"' in recorded("pi")


def test_its_arguments_are_the_ordered_ones_and_what_the_settings_say() -> None:
    settings = PiSettings(
        pi_provider="anthropic", model="opus", tools=("read", "bash"), thinking="low", api_key="sk-1", args=("--x",)
    )

    assert list(pi_arguments(PiSettings(), make_request())) == FIXED
    assert list(pi_arguments(PiSettings(tools=()), make_request())) == [*FIXED, "--no-tools"]
    assert list(pi_arguments(settings, make_request(system_prompt="Be kind."))) == [
        *FIXED,
        *("--provider", "anthropic", "--model", "opus", "--tools", "read,bash", "--thinking", "low"),
        *("--append-system-prompt", "Be kind.", "--x"),
    ]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (PiSettings(), "GEMINI_API_KEY"),
        (PiSettings(pi_provider="openai"), "OPENAI_API_KEY"),
        (PiSettings(pi_provider="my-own.shop"), "MY_OWN_SHOP_API_KEY"),
        (PiSettings(model="openrouter/gpt"), "OPENROUTER_API_KEY"),
        (PiSettings(pi_provider="huggingface", model="a/b"), "HF_TOKEN"),
    ],
)
def test_the_key_is_called_as_pi_looks_for_it(settings: PiSettings, name: str) -> None:
    assert key_name(settings) == name


def test_the_key_is_in_the_environment_and_struck_from_what_is_said(tmp_path: Path) -> None:
    message = {"role": "assistant", "content": [{"type": "text", "text": "It is THE_KEY."}]}
    agent = stand_in(tmp_path / "agent", then=f"sed \"s/THE_KEY/$OPENAI_API_KEY/\" '{tmp_path}/events'")
    (tmp_path / "events").write_text(lines({"type": "message_end", "message": message}))
    settings = PiSettings(executable=agent.program, pi_provider="openai", api_key="sk-0123456789")

    response = ask(make_target("pi", settings), home=tmp_path)

    assert response.text == "It is ***."
    assert "sk-0123456789" not in json.dumps(response.request)
    assert "sk-0123456789" not in Path(response.log_paths[0]).read_text()


def test_reasoning_tokens_are_read_where_pi_reports_them() -> None:
    usage = {"input": 60, "output": 10, "cacheRead": 40, "reasoning": 4}
    event: JsonObject = {"type": "message_end", "message": {"role": "assistant", "usage": usage}}

    used = Transcript(read_pi(event, "now")).response().usage

    assert used == Usage(input=100, output=10, cached_input=40, reasoning=4, total=110, requests=1)


def ended(reason: str, error: str | None = None, text: str = "") -> JsonObject:
    content = [{"type": "text", "text": text}] if text else []
    message = {"role": "assistant", "content": content, "stopReason": reason, "errorMessage": error}
    return {"type": "message_end", "message": message}


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        ("401 No entry", "auth", 401),
        ("Connection error.", "target_exit", None),
        ("Provider finish_reason: content_filter", "content_filter", None),
    ],
)
def test_an_error_is_one_although_it_exits_with_0(tmp_path: Path, error: str, kind: str, status: int | None) -> None:
    agent = stand_in(tmp_path / "agent", lines(ended("error", error)))

    failure = failure_of(make_target("pi", PiSettings(executable=agent.program)), home=tmp_path)

    assert (failure.kind, failure.http_status) == (kind, status)
    assert failure.message.startswith(f"pi failed: {error.rstrip('.')}; ")


def test_an_error_that_it_got_over_is_none(tmp_path: Path) -> None:
    retry = {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "errorMessage": "500"}
    agent = stand_in(tmp_path / "agent", lines(ended("error", "500 x"), retry, ended("stop", text="Done.")))

    response = ask(make_target("pi", PiSettings(executable=agent.program)), home=tmp_path)

    assert response.text == "Done."
    assert "notes    retry 1 of 3: 500" in Path(response.log_paths[0]).read_text()

"""System prompts of cases and `prompts`: apart from the question where a target takes them so, else inside it."""

import functools
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.loopback import reply, serving

from agentv import (
    CaseTurn,
    ConfigError,
    EvalCase,
    EvaluatorConfig,
    Message,
    ProviderRequest,
    TargetConfig,
    evaluate,
)

SYSTEM, QUESTION = "Be brief.", "Where is my parcel?"
CASE = EvalCase(
    "a", [Message("system", SYSTEM), Message("user", QUESTION)], expected_outcome="Says where.", metadata={"other": "?"}
)
MARKED = f"@[System]:\n{SYSTEM}\n\n@[User]:\n{QUESTION}"
ANY = (EvaluatorConfig("any", "length", {"max": 100_000}),)


def answer_of(target: dict[str, Any], case: EvalCase = CASE) -> str:
    report = evaluate([case], target=target, evaluators=ANY)
    assert report.results[0].error is None
    return report.results[0].candidate_answer


def echo(request: ProviderRequest) -> str:
    return json.dumps([request.system_prompt, request.question])


def python_target(**settings: Any) -> dict[str, Any]:
    return {"provider": "python", "callable": echo, **settings}


def cli_target(template: str, **settings: Any) -> dict[str, Any]:
    return {"provider": "cli", "command_template": template, **settings}


def test_a_function_gets_the_system_prompt_apart_if_its_target_says_that_it_takes_it() -> None:
    assert json.loads(answer_of(python_target(takes_system_prompt=True))) == [SYSTEM, QUESTION]


def test_any_other_function_finds_the_system_prompt_in_the_question() -> None:
    assert json.loads(answer_of(python_target())) == [None, MARKED]


class Reader:
    def __call__(self, request: ProviderRequest) -> str:
        def text() -> str:
            return f"{request.system_prompt} {request.question}"

        return text()


async def read_later(request: ProviderRequest) -> dict[str, Any]:
    return {"text": f"{request.system_prompt} {request.question}"}


@pytest.mark.parametrize("function", [echo, Reader(), read_later, functools.partial(echo)])
def test_a_function_that_reads_the_system_prompt_in_vain_is_noted_once(function: Any) -> None:
    def notes(case: EvalCase, **settings: Any) -> tuple[str, ...]:
        cases = [case, replace(case, id="b")]
        target = {"provider": "python", "callable": function, **settings}
        return tuple(note for note in evaluate(cases, target=target, evaluators=ANY).notes if "system" in note)

    (note,) = notes(CASE)
    assert "its function reads `system_prompt`" in note
    assert "`takes_system_prompt: true`" in note
    assert notes(CASE, takes_system_prompt=True) == ()
    assert notes(EvalCase("a", QUESTION)) == ()


def test_a_function_that_reads_the_question_alone_is_not_noted() -> None:
    report = evaluate([CASE], task=lambda request: request.question, evaluators=ANY)
    assert report.notes == ()
    assert len(evaluate([CASE], task=echo, evaluators=ANY).notes) == 1


def test_the_system_prompt_of_the_target_precedes_that_of_the_case() -> None:
    target = python_target(takes_system_prompt=True, system_prompt="You are the shop.")
    assert json.loads(answer_of(target)) == [f"You are the shop.\n\n{SYSTEM}", QUESTION]


def test_every_turn_of_a_conversation_has_the_system_prompt_apart() -> None:
    turns = tuple(CaseTurn(Message("user", text)) for text in ("One?", "Two?"))
    asked: list[ProviderRequest] = []

    def remember(request: ProviderRequest) -> str:
        asked.append(request)
        return "Yes."

    case = EvalCase("a", [Message("system", SYSTEM)], expected_outcome="x", turns=turns)
    target: dict[str, Any] = {"provider": "python", "callable": remember, "takes_system_prompt": True}
    evaluate([case], target=target, evaluators=ANY)

    assert [request.system_prompt for request in asked] == [SYSTEM, SYSTEM]
    assert [request.question for request in asked] == [
        "One?",
        "@[User]:\nOne?\n\n@[Assistant]:\nYes.\n\n@[User]:\nTwo?",
    ]


PRINT = f"{sys.executable} -S -c 'import sys, json; print(json.dumps(sys.argv[1:]))'"


def test_a_command_gets_the_system_prompt_apart_if_it_has_the_placeholder() -> None:
    assert json.loads(answer_of(cli_target(f"{PRINT} {{SYSTEM_PROMPT}} {{PROMPT}}"))) == [SYSTEM, QUESTION]


def test_any_other_command_finds_the_system_prompt_in_the_prompt() -> None:
    assert json.loads(answer_of(cli_target(f"{PRINT} {{PROMPT}}"))) == [MARKED]


def test_a_command_without_a_system_prompt_gets_an_empty_text() -> None:
    case = EvalCase("a", QUESTION, expected_outcome="x")
    assert json.loads(answer_of(cli_target(f"{PRINT} {{SYSTEM_PROMPT}} {{PROMPT}}"), case)) == ["", QUESTION]


BATCH_AGENT = "import json, sys; print(*(json.dumps({**json.loads(line), 'text': line}) for line in open(sys.argv[1])))"


def test_the_cases_file_of_a_batch_has_the_system_prompt_of_each_case() -> None:
    template = f'{sys.executable} -S -c "{BATCH_AGENT}" {{CASES_FILE}} "{{SYSTEM_PROMPT}}"'
    case = json.loads(answer_of(cli_target(template, provider_batching=True)))
    assert (case["system_prompt"], case["prompt"]) == (SYSTEM, QUESTION)


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        ({"system": "{{ system_prompt }}", "q": "{{ question }}"}, {"system": SYSTEM, "q": QUESTION}),
        ({"q": "{{ question }}"}, {"q": MARKED}),
        (
            {"messages": "{{ chat_prompt }}"},
            {"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]},
        ),
    ],
    ids=["a field of its own", "in the question", "in the messages"],
)
def test_a_web_service_gets_the_system_prompt_where_its_body_has_it(body: Any, sent: Any) -> None:
    with serving(reply("ok")) as server:
        answer_of({"provider": "http", "url": server.url, "body": body})
    (received,) = server.requests
    assert json.loads(received.body) == sent


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        (cli_target("echo {PROMPT}"), "add {SYSTEM_PROMPT} to `command_template`"),
        (
            {"provider": "http", "url": "http://h/", "body": {"q": "{{ question }}"}},
            "add {{ system_prompt }} or {{ chat_prompt }} to `body`",
        ),
    ],
    ids=["cli", "http"],
)
def test_a_system_prompt_of_a_target_that_does_not_use_it_is_refused(target: dict[str, Any], advice: str) -> None:
    with pytest.raises(ConfigError, match="is not used by this target") as raised:
        evaluate([CASE], target={**target, "system_prompt": "Be kind."}, evaluators=ANY)
    assert advice in str(raised.value)


def judge_prompt(target: dict[str, Any], *, type_: str = "llm_judge", **settings: Any) -> str:
    asked: list[str] = []

    def judge(request: ProviderRequest) -> dict[str, Any]:
        asked.append(request.question)
        return {"score": 1, "hits": [], "misses": [], "reasoning": "ok"}

    evaluate([CASE], target=target, evaluators=(EvaluatorConfig("judged", type_, settings),), judge=judge)
    return asked[0]


@pytest.mark.parametrize("takes_it", [True, False])
def test_judges_see_the_system_prompt_as_a_section_whatever_the_target_takes(takes_it: bool) -> None:
    prompt = judge_prompt(python_target(takes_system_prompt=takes_it))
    assert f"[[ ## system_prompt ## ]]\n{SYSTEM}\n\n[[ ## question ## ]]\n{QUESTION}\n\n" in prompt


def test_a_pairwise_judge_sees_the_system_prompt_as_a_section() -> None:
    prompt = judge_prompt(python_target(), type_="pairwise", against="metadata.other")
    assert f"[[ ## system_prompt ## ]]\n{SYSTEM}\n\n[[ ## question ## ]]\n{QUESTION}\n\n" in prompt


def test_a_judge_prompt_that_shows_the_question_alone_contains_the_system_prompt() -> None:
    prompt = judge_prompt(python_target(takes_system_prompt=True), prompt="{{ question }} -> {{ answer }}")
    assert prompt.startswith(f"{MARKED} -> ")


def test_a_judge_prompt_may_show_the_system_prompt_where_it_likes() -> None:
    prompt = judge_prompt(python_target(), prompt="{{ question }} ({{ systemPrompt }}) -> {{ answer }}")
    assert prompt.startswith(f"{QUESTION} ({SYSTEM}) -> ")


def test_a_system_prompt_too_long_for_an_argument_is_an_error_with_advice() -> None:
    case = EvalCase("a", [Message("system", "x" * 130_000), Message("user", "?")], expected_outcome="x")
    (row,) = evaluate([case], target=cli_target("echo {SYSTEM_PROMPT} {PROMPT}"), evaluators=ANY).results
    assert row.error is not None
    assert "{SYSTEM_PROMPT} is 130 kB" in row.error.message
    assert "use {PROMPT_FILE} and remove {SYSTEM_PROMPT}" in row.error.message


def test_the_stored_request_is_what_the_target_got(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"callable": echo, "takes_system_prompt": True}
    target = TargetConfig("fn", "python", settings)
    evaluate([CASE], target=target, evaluators=ANY, folder=tmp_path)
    (answers,) = tmp_path.glob("runs/*/answers.jsonl")
    assert json.loads(answers.read_text())["request"] == {"system_prompt": SYSTEM, "question": QUESTION}

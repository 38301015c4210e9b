import json
import shlex
import sys
from collections.abc import Mapping, Sequence

import pytest
from tests.support.asking import ask, make_request, make_target, with_provider

from agentv.providers.local.cli import cases_text, parse_batch
from agentv.providers.local.cli_settings import CliSettings
from agentv.types.failures import Failure
from agentv.types.messages import Message, ToolCall
from agentv.types.provider import BatchProvider, Provider, ProviderError, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget

REQUESTS = [
    make_request("One?", eval_case_id="a", guidelines="Be kind.", input_files=("/d/x", "/d/y")),
    make_request("Two?", eval_case_id="b", input_files=("/d/y",)),
]
AGENT = """
import json, sys
cases_file, output_file, *seen = sys.argv[1:]
with open(cases_file) as cases, open(output_file, "w") as out:
    for line in cases:
        case = json.loads(line)
        print(json.dumps({"id": case["id"], "text": json.dumps([case, seen])}), file=out)
"""
TEMPLATE = f"{sys.executable} -S -c {shlex.quote(AGENT)} {{CASES_FILE}} {{OUTPUT_FILE}}"


def batch_of(target: ResolvedTarget, requests: Sequence[ProviderRequest]) -> Mapping[str, ProviderResponse | Failure]:
    async def use(provider: Provider) -> Mapping[str, ProviderResponse | Failure]:
        assert isinstance(provider, BatchProvider)
        return await provider.invoke_batch(requests)

    return with_provider(target, use)


def test_a_batch_is_one_command_that_gets_all_cases_and_every_file_once() -> None:
    template = TEMPLATE + " {EVAL_ID} '{PROMPT}' '{GUIDELINES}' {FILES}"

    answers = batch_of(make_target("cli", CliSettings(template)), REQUESTS)

    first = answers["a"]
    assert isinstance(first, ProviderResponse)
    case, seen = json.loads(first.text)
    assert case == {"id": "a", "prompt": "One?", "guidelines": "Be kind.", "files": ["/d/x", "/d/y"]}
    assert seen == ["batch", "", "", "/d/x", "/d/y"]
    assert list(answers) == ["a", "b"]


def test_the_same_template_answers_a_single_case() -> None:
    response = ask(make_target("cli", CliSettings(TEMPLATE + " {EVAL_ID}")), REQUESTS[1])

    assert json.loads(response.text) == [{"id": "b", "prompt": "Two?", "guidelines": "", "files": ["/d/y"]}, ["b"]]


@pytest.mark.parametrize("template", ["a {CASES_FILE}", "a {PROMPT} {OUTPUT_FILE}", "a {FILES}"])
def test_every_template_can_batch(template: str) -> None:
    async def use(provider: Provider) -> bool:
        assert isinstance(provider, BatchProvider)
        return provider.supports_batch

    assert with_provider(make_target("cli", CliSettings(template)), use)


def test_a_batch_that_fails_fails_as_a_whole() -> None:
    with pytest.raises(ProviderError, match="exit code 3") as raised:
        batch_of(make_target("cli", CliSettings("exit 3; cat {CASES_FILE}")), REQUESTS)

    assert raised.value.failure.kind == "target_exit"


def test_a_line_is_read_by_the_key_of_its_answer_or_refused() -> None:
    answers = parse_batch('{"id": "a", "answer": "Paris"}\n{"id": "b", "text": "Rome"}', ["a", "b"])
    assert {case_id: answer.text for case_id, answer in answers.items()} == {"a": "Paris", "b": "Rome"}
    with pytest.raises(ProviderError, match="line 1 of the batch output holds no answer; its keys: 'city'"):
        parse_batch('{"id": "a", "city": "Paris"}', ["a"])


def test_standard_output_serves_when_there_is_no_output_file() -> None:
    answers = batch_of(
        make_target("cli", CliSettings("""sed 's/.*"id": *"\\([ab]\\)".*/{"id":"\\1"}/' < {CASES_FILE}""")), REQUESTS
    )

    assert sorted(answers) == ["a", "b"]


def test_the_cases_file_has_one_json_object_per_line() -> None:
    text = cases_text([make_request("line\nbreak \u2028 \ud800", eval_case_id="a")])

    assert text.count("\n") == 1
    assert json.loads(text)["prompt"] == "line\nbreak \u2028 \ud800"


def test_a_line_may_have_text_messages_and_trace() -> None:
    lines = (
        '{"id": "a", "text": "one", "trace": [{"type": "error"}]}\r\n\n'
        '{"id": "b", "output_messages": [{"role": "assistant", "content": "two", "tool_calls": [{"tool": "t"}]}]}'
    )

    answers = parse_batch(lines, ["a", "b"])

    assert answers["a"].text == "one"
    assert answers["a"].trace is not None
    assert answers["b"].text == "two"
    assert answers["b"].output_messages == (Message("assistant", "two", tool_calls=(ToolCall("t"),)),)


def test_ids_that_were_left_out_are_missing() -> None:
    assert list(parse_batch('{"id": "b", "text": "x"}', ["a", "b", "c"])) == ["b"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{"], "line 1 is not JSON"),
        (['{"id": "a"}', "[" * 100_000], "line 2 is not JSON"),
        (["4"], "line 1 has no id"),
        (['{"text": "x"}'], "line 1 has no id"),
        (['{"id": 7}'], "line 1 has no id"),
        (['{"id": "z"}'], "line 1 has the unknown id 'z'"),
        (['{"id": "a"}', "", '{"id": "a"}'], "line 3 repeats the id 'a'"),
        (["{", '{"id": "z"}'], "line 1 is not JSON; line 2 has the unknown id 'z'"),
        (["{"] * 23, "line 19 is not JSON; line 20 is not JSON and 3 more"),
    ],
)
def test_every_wrong_line_is_named_by_its_number(lines: list[str], message: str) -> None:
    with pytest.raises(ProviderError) as raised:
        parse_batch("\n".join(lines), ["a", "b"])

    assert raised.value.failure.kind == "malformed_reply"
    assert raised.value.failure.message.startswith("the batch output is invalid: ")
    assert message in raised.value.failure.message

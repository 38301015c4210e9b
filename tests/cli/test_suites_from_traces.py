"""`agentv generate evals --from-traces`: an eval file from the questions that an agent has answered."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.test_score_transcripts import write_session
from tests.support.command_line import Call, command_line
from tests.support.spans import export
from tests.support.transcripts import claude_record
from tests.telemetry.test_joining import ASKS, FOUND, assistant, call, user

CONFIG = "evaluators: [{type: contains, name: way, value: way}]\n"
TARGETS = "targets: [{name: old, provider: replay, file: traces.jsonl}]\n"
SYSTEM = {"role": "system", "parts": [{"type": "text", "content": "You serve a shop."}]}


def span_id(number: int) -> str:
    return f"{number:016x}"


def write_traces(*spans: dict[str, Any], name: str = "traces.jsonl") -> None:
    Path(name).write_text("".join(f"{json.dumps(export(each))}\n" for each in spans))


@pytest.fixture
def agentv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    (tmp_path / ".git").mkdir()
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "targets.yaml").write_text(TARGETS)
    monkeypatch.chdir(tmp_path)

    return command_line(capsys)


@pytest.fixture
def generate(agentv: Call) -> Call:
    def call_main(*arguments: str) -> tuple[int, str, str]:
        return agentv("generate", "evals", *arguments, "--out", "suite.yaml")

    return call_main


def suite() -> dict[str, Any]:
    return dict(yaml.safe_load(Path("suite.yaml").read_text()))


def cases() -> list[dict[str, Any]]:
    return list(suite()["evalcases"])


def ids() -> list[str]:
    return [each["id"] for each in cases()]


def asked(number: int, question: str, answer: str = "On its way.", *, said: Sequence[dict[str, Any]] = ()) -> Any:
    return call(number, [*said, user(question)], assistant(answer), at_s=number)


def test_each_question_becomes_a_case_that_replays(agentv: Call, generate: Call) -> None:
    write_traces(asked(1, "Where is order 7?"), asked(2, "And 8?"))
    code, out, err = generate("--from-traces", "traces.jsonl")
    assert code == 0, err
    assert out.startswith("Wrote suite.yaml: 2 cases\nnote: the cases contain texts of real users")
    assert cases()[0] == {
        "id": span_id(1),
        "input": "Where is order 7?",
        "expected": "On its way.",
        "metadata": {
            "origin": {"file": "traces.jsonl", "line": 1, "trace_id": f"{1:032x}", "span_id": span_id(1)},
        },
    }
    assert agentv("check", "suite.yaml")[0] == 0
    with Path("suite.yaml").open("a") as file:
        file.write(CONFIG)
    code, out, err = agentv("run", "suite.yaml", "--target", "old")
    assert code == 0, out + err
    assert "2 of 2 passed" in out


def test_ids_are_those_of_the_scored_answers(agentv: Call, generate: Call) -> None:
    write_session("Fix it", "And this", name="s")
    generate("--from-traces", "sessions")
    agentv("score", "sessions", "--config", "config.yaml", "--gate", "none")
    [run] = Path(".agentv/runs").iterdir()
    rows = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
    assert ids() == [each["eval_id"] for each in rows]


def test_earlier_turns_are_the_input_and_tool_calls_are_expected_if_asked(agentv: Call, generate: Call) -> None:
    told = [user("Hi"), assistant("Hello"), user("Where?")]
    write_traces(call(1, told, ASKS), call(2, [*told, ASKS, FOUND], assistant("Here."), at_s=1))
    generate("--from-traces", "traces.jsonl", "--trajectory", "in_order")
    [case] = cases()
    assert [(each["role"], each["content"]) for each in case["input"]] == [
        ("user", "Hi"),
        ("assistant", "Hello"),
        ("user", "Where?"),
    ]
    assert case["expected"] == "Here."
    assert case["add_evaluators"] == [
        {
            "name": "trajectory",
            "type": "tool_trajectory",
            "mode": "in_order",
            "expected": [{"tool": "find", "args": {"order": "7"}}],
        }
    ]
    code, out, _ = agentv("run", "suite.yaml", "--target", "old")
    assert (code, "1 of 1 passed" in out) == (0, True)


def test_system_prompts_belong_to_the_agent(generate: Call) -> None:
    write_traces(asked(1, "Where?", said=[SYSTEM]))
    _, out, _ = generate("--from-traces", "traces.jsonl")
    assert cases()[0]["input"] == "Where?"
    assert "system prompt left out of 1 case; --with-system includes it" in out
    Path("suite.yaml").unlink()
    generate("--from-traces", "traces.jsonl", "--with-system")
    assert [each["role"] for each in cases()[0]["input"]] == ["system", "user"]


def test_a_question_that_was_asked_again_is_one_case(generate: Call) -> None:
    write_traces(asked(1, "Where  is it?"), asked(2, "where is IT?", "No."), asked(3, "When?"))
    _, out, _ = generate("--from-traces", "traces.jsonl")
    assert ids() == [span_id(1), span_id(3)]
    assert "note: no case, because their question has one already: 1 answer\n" in out


def test_the_same_words_after_another_history_are_another_question(generate: Call) -> None:
    write_traces(asked(1, "Why?"), asked(2, "Why?", said=[user("It is late."), assistant("Sorry.")]))
    generate("--from-traces", "traces.jsonl")
    assert ids() == [span_id(1), span_id(2)]


def test_what_cannot_become_a_case_is_counted_with_its_place(generate: Call) -> None:
    Path("log.jsonl").write_text('{"response": "Hello"}\n{"prompt": "a"\n{"prompt": "Hi", "response": ""}\n')
    write_traces(asked(1, "Where?"))
    _, out, _ = generate("--from-traces", "traces.jsonl", "log.jsonl")
    assert ids() == [span_id(1)]
    assert "no case, because they have no question: 1 (log.jsonl:1)\n" in out
    unread = "cannot be read, or have no answer because it failed, as 'agentv traces show' explains"
    assert f"no case, because they {unread}: 1 (log.jsonl:2)\n" in out
    assert "no case, because they have no answer to compare with: 1 (log.jsonl:3)\n" in out


def test_a_question_with_an_image_is_no_case_earlier_thoughts_are_left_out(agentv: Call, generate: Call) -> None:
    image = {"type": "uri", "modality": "image", "uri": "https://example.com/a.png"}
    thought = {"role": "assistant", "parts": [{"type": "reasoning", "content": "Hm."}, *assistant("Hello")["parts"]]}
    shown = {"role": "user", "parts": [*user("What is this?")["parts"], image]}
    write_traces(
        call(1, [shown], assistant("A cat.")), call(2, [user("Hi"), thought, user("Bye")], assistant("Bye."), at_s=1)
    )
    _, out, _ = generate("--from-traces", "traces.jsonl")
    assert "no case, because they have an image or another attachment" in out
    assert [each["content"] for each in cases()[0]["input"]] == ["Hi", "Hello", "Bye"]
    assert agentv("check", "suite.yaml")[0] == 0


def test_only_answers_that_did_not_pass_become_cases_with_their_evaluators(agentv: Call, generate: Call) -> None:
    write_traces(asked(1, "Where?"), asked(2, "When?", "No idea."))
    agentv("score", "traces.jsonl", "--config", "config.yaml", "--name", "monday")
    code, out, err = generate("--from-traces", "traces.jsonl", "--failed", "monday")
    assert (code, ids()) == (0, [span_id(2)]), out + err
    assert suite()["evaluators"] == [{"name": "way", "type": "contains", "value": "way"}]
    assert "expected" not in cases()[0]
    assert agentv("check", "suite.yaml")[0] == 0
    assert "0 of 1 passed" in agentv("run", "suite.yaml", "--target", "old")[1]


def test_a_run_without_failures_in_the_files_gives_no_suite(agentv: Call, generate: Call) -> None:
    write_traces(asked(1, "Where?"))
    agentv("score", "traces.jsonl", "--config", "config.yaml", "--name", "monday")
    code, out, _ = generate("--from-traces", "traces.jsonl", "--failed", "monday")
    assert (code, Path("suite.yaml").exists()) == (5, False)
    assert "no answer in these files failed or ended with an error in run" in out


def test_limit_sample_and_since_select_answers(generate: Call) -> None:
    write_session("old", name="old", at=datetime.now(UTC) - timedelta(days=3))
    write_session(*"abcdefgh", name="new")
    generate("--from-traces", "sessions", "--since", "1d", "--limit", "5")
    assert len(ids()) == 5
    assert all("old" not in each for each in ids())
    Path("suite.yaml").unlink()
    generate("--from-traces", "sessions", "--sample", "3")
    assert len(ids()) == 3


def test_notes_report_what_options_did_and_what_was_not_read(generate: Call) -> None:
    Path("log.jsonl").write_text('{"id": "1", "prompt": "a", "response": "b"}\n')
    arguments = ("--from-traces", "log.jsonl", "--since", "1d", "--map", "response=reply", "--map", "prompt=ask")
    _, out, _ = generate("--from-traces", "log.jsonl", "--since", "1d", "--sample", "100%", "--sample-by", "session")
    assert "note: not left out by --since, because they have no time: 1 answer\n" in out
    Path("suite.yaml").unlink()
    _, out, _ = generate(*arguments)
    assert "no line has the path of --map" in out


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("score", "--config", "config.yaml", "--gate", "none"), "not scored"),
        (("generate", "evals", "--out", "suite.yaml", "--from-traces"), "no case"),
        (("traces", "show"), "no answer"),
    ],
)
def test_a_prompt_that_is_left_out_is_named_in_the_words_of_the_command(
    agentv: Call, command: tuple[str, ...], words: str
) -> None:
    write_session("Fix it", more=[claude_record("user", "last", "s-a0", "And this?")])
    _, out, _ = agentv(*command, "sessions")
    why = "because the agent was interrupted or is still at work: 1 prompt (sessions/s.jsonl:3)"
    assert f"ote: {words}, {why}\n" in out


def test_why_no_suite_is_written_is_in_the_words_of_the_command(generate: Call) -> None:
    write_session(more=[claude_record("user", "u", None, "Anyone?")])
    code, out, _ = generate("--from-traces", "sessions")
    assert code == 5
    assert out.startswith("NOTHING WRITTEN: no case, because the agent was interrupted or is still at work: 1 prompt")


def test_cases_are_added_to_a_suite_that_has_some_of_the_questions(agentv: Call, generate: Call) -> None:
    write_traces(asked(1, "Where?"))
    generate("--from-traces", "traces.jsonl")
    assert generate("--from-traces", "traces.jsonl")[0] == 4
    write_traces(asked(1, "Where?"), asked(2, "When?"))
    code, out, _ = generate("--from-traces", "traces.jsonl", "--append")
    assert (code, ids()) == (0, [span_id(1), span_id(2)]), out
    code, out, _ = generate("--from-traces", "traces.jsonl", "--append")
    assert (code, "the file has all questions already" in out) == (5, True)
    assert agentv("check", "suite.yaml")[0] == 0


def test_personal_data_is_named_and_secrets_are_redacted(generate: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "sk-verysecret-1234567890")
    write_traces(
        asked(1, "I am ann@example.org, my key is sk-verysecret-1234567890"),
        asked(2, "My card is 4111 1111 1111 1111, IBAN DE89 3704 0044 0532 0130 00"),
        asked(3, "Order 4111 1111 1111 1112 of +49 30 1234567"),
    )
    _, out, _ = generate("--from-traces", "traces.jsonl")
    assert "sk-verysecret" not in Path("suite.yaml").read_text()
    assert f"looks like personal data: e-mail address in 1 case ({span_id(1)})" in out
    assert f"looks like personal data: card number in 1 case ({span_id(2)})" in out
    assert f"looks like personal data: IBAN in 1 case ({span_id(2)})" in out
    assert f"looks like personal data: phone number in 1 case ({span_id(3)})" in out


def test_json_has_cases_and_what_was_left_out_dry_run_writes_nothing(generate: Call) -> None:
    write_traces(asked(1, "Where?"), asked(2, "Where?"))
    code, out, _ = generate("--from-traces", "traces.jsonl", "--json", "--dry-run")
    told = json.loads(out)
    assert (code, told["written"], told["repeated"]) == (0, False, 1)
    assert [each["id"] for each in told["cases"]] == [span_id(1)]
    _, out, _ = generate("--from-traces", "traces.jsonl", "--dry-run")
    assert yaml.safe_load(out)["evalcases"][0]["id"] == span_id(1)
    assert not Path("suite.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either --in FILE or --from-traces FILE"),
        (("--from-traces", "traces.jsonl", "--count", "2"), "--count cannot be combined with --from-traces"),
        (("--in", "config.yaml", "--trajectory", "exact"), "--trajectory cannot be combined with --in"),
        (("--in", "config.yaml", "more.yaml"), "unexpected argument 'more.yaml'"),
        (("--from-traces", "nowhere"), "nowhere: no such file"),
        (("--from-traces", "traces.jsonl", "--failed", "x"), "'x'"),
        (("--from-traces", "traces.jsonl", "--sample", "3", "--since", "1d"), "--sample 3 draws from all answers"),
    ],
)
def test_wrong_usage_is_one_error(generate: Call, arguments: tuple[str, ...], message: str) -> None:
    write_traces(asked(1, "Where?"))
    code, out, err = generate(*arguments)
    assert code == 4
    assert message in out + err
    assert not Path("suite.yaml").exists()

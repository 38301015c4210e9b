import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.judging import Tools, evaluator_of, make_context, make_evaluator

from agentv.evaluators.judges.code_judge import CodeEvaluator, CodeEvaluatorOptions
from agentv.evaluators.judges.contracts import read_answer
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvalFileError
from agentv.types.evaluation import EvaluationContext, EvaluationScore
from agentv.types.failures import Failure
from agentv.types.messages import Message, ToolCall, TraceEvent, TraceSummary
from agentv.types.scales import EvaluationCriteria

ANSWER = '{"score": 0.5, "hits": ["a"], "misses": ["b"], "reasoning": "half"}'


NO_NUMBER = "the answer must be a JSON object with a number in `score`, and"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def script(folder: Path, code: str) -> tuple[str, str]:
    """Return the command of a Python script with that code."""
    file = folder / "judge.py"
    file.write_text(code)
    return (sys.executable, str(file))


def run(context: EvaluationContext, command: str | tuple[str, ...], **options: Any) -> EvaluationScore:
    return asyncio.run(CodeEvaluator(script=command, **options).evaluate(context))


def failure_of(score: EvaluationScore) -> tuple[str, str]:
    """Return kind and message of a failure, after checking that it scores as the seed requires."""
    assert score.error is not None
    assert (score.score, score.misses, score.status) == (0.0, (score.error.message,), "error")
    return score.error.kind, score.error.message


def test_a_script_answers_with_a_score(folder: Path) -> None:
    score = run(make_context(), script(folder, f"print('''{ANSWER}''')"))
    assert (score.score, score.hits, score.misses, score.reasoning) == (0.5, ("a",), ("b",), "half")
    assert score.expected_aspect_count == 2


def test_a_shell_command_runs_in_its_folder(folder: Path) -> None:
    (folder / "answer.json").write_text(ANSWER)
    assert run(make_context(), "cat answer.json | head -1", cwd=str(folder)).score == 0.5


def test_the_payload_holds_everything_that_is_known(folder: Path) -> None:
    code = "import json, sys; print(json.dumps({'score': 1, 'reasoning': sys.stdin.read()}))"
    context = make_context(
        "the answer",
        output_messages=(Message(role="assistant", tool_calls=(ToolCall("search", {"q": 1}),)),),
        candidate_trace=(TraceEvent(type="tool_call", name="search"),),
        candidate_trace_summary=TraceSummary(1, ("search",), {"search": 1}, 0),
        criteria=(EvaluationCriteria("tone", "polite?"),),
        workspace_path="/somewhere",
    )
    score = run(context, script(folder, code), config={"level": 3})
    assert json.loads(score.reasoning or "") == {
        "question": "May I return it?",
        "expected_outcome": "Says that returns are possible for 30 days",
        "expected_messages": [{"role": "assistant", "content": "Yes, within 30 days."}],
        "reference_answer": "Yes, within 30 days.",
        "candidate_answer": "the answer",
        "output_messages": [{"role": "assistant", "tool_calls": [{"tool": "search", "input": {"q": 1}}]}],
        "guideline_files": [],
        "input_files": [],
        "input_messages": [{"role": "user", "content": "May I return it?"}],
        "candidate_trace": [{"type": "tool_call", "name": "search"}],
        "candidate_trace_summary": {
            "eventCount": 1,
            "toolNames": ["search"],
            "toolCallsByName": {"search": 1},
            "errorCount": 0,
        },
        "criteria": [{"name": "tone", "description": "polite?", "scale": "binary", "weight": 1.0}],
        "metadata": {"difficulty": "hard"},
        "config": {"level": 3},
        "workspace_path": "/somewhere",
    }


def test_what_was_not_given_is_null(folder: Path) -> None:
    code = """
import json, sys
payload = json.load(sys.stdin)
print(json.dumps({"score": 1, "hits": [name for name in payload if payload[name] is None]}))
"""
    score = run(make_context(), script(folder, code))
    assert score.hits == ("output_messages", "candidate_trace", "candidate_trace_summary", "workspace_path")


@pytest.mark.parametrize(
    "code",
    [
        f"print('loading model'); print('{{}} done'); print('''{ANSWER}''')",
        f"print('''{{\"score\": 0.1}}''')\nprint('''{ANSWER}''')",
        f"import json; print(json.dumps(json.loads('''{ANSWER}'''), indent=2)); print('bye')",
        f"import os; os.close(0); print('''{ANSWER}''')",
        f"import sys; sys.stderr.write('x' * 500_000); print('''{ANSWER}''')",
        f"import sys; sys.stdout.buffer.write(b'\\xff\\xfe bytes\\n'); print('''{ANSWER}''')",
    ],
    ids=["log lines before", "two objects", "several lines", "closes its input", "much on stderr", "bad bytes"],
)
def test_the_last_object_on_standard_output_counts(folder: Path, code: str) -> None:
    assert run(make_context(), script(folder, code)).score == 0.5


def test_a_script_that_never_reads_a_large_input_breaks_nothing(folder: Path) -> None:
    assert run(make_context("x" * 5_000_000), script(folder, f"print('''{ANSWER}''')")).score == 0.5


def scored_by_script(folder: Path, answer: str) -> EvaluationScore:
    return run(make_context(), script(folder, f"print({answer!r})"))


@pytest.mark.parametrize(
    ("given_score", "score", "is_clamped"), [("1.5", 1.0, True), ("-0.5", 0.0, True), ("1", 1.0, False)]
)
def test_scores_are_clamped(folder: Path, given_score: str, score: float, is_clamped: bool) -> None:
    found = scored_by_script(folder, f'{{"score": {given_score}}}')
    assert (found.score, found.clamped, found.error) == (score, is_clamped, None)


@pytest.mark.parametrize(("given_score", "score"), [("7", 1.0), ("-1", 0.0), ("1.6", 1.0)])
def test_a_score_on_another_scale_is_a_judge_error(folder: Path, given_score: str, score: float) -> None:
    found = scored_by_script(folder, f'{{"score": {given_score}, "verdict": "pass", "hits": ["a"]}}')
    message = f"the score is off its scale: {given_score} is outside 0 to 1"
    assert found.error == Failure("judge_error", message, stage="evaluator")
    assert (found.score, found.verdict, found.hits) == (score, None, ("a",))


def test_a_score_on_another_scale_beside_assertions_is_a_judge_error() -> None:
    found = read_answer({"score": 10, "assertions": [{"text": "greets", "passed": True}]})
    assert found.error == Failure("judge_error", "the score is off its scale: 10 is outside 0 to 1", stage="evaluator")
    assert (found.score, found.verdict, found.hits) == (1.0, None, ("greets",))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("print('no object')", "the script printed no JSON object; it printed: no object"),
        ("", "the script printed no JSON object"),
        ("print('{}')", "the answer must be a JSON object with a number in `score`, and it has no `score`"),
        (
            'print(\'{"score": "0.9"}\')',
            'the answer must be a JSON object with a number in `score`, and its `score` is "0.9"',
        ),
        (
            "print('{\"score\": NaN}')",
            "the answer must be a JSON object with a number in `score`, and its `score` is NaN",
        ),
        ("print('{\"score\": 1' + '0' * 400 + '}')", f"{NO_NUMBER} its `score` is 1{'0' * 79}"),
        ("import sys; sys.exit('out of luck')", "the script ended with exit code 1: out of luck"),
        ("print('{\"score\": 1}'); raise SystemExit(3)", "the script ended with exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "the script ended with exit code -9"),
    ],
)
def test_a_script_that_fails_scores_zero_and_says_why(folder: Path, code: str, message: str) -> None:
    assert failure_of(run(make_context(), script(folder, code))) == ("evaluator_error", message)


def test_a_script_that_is_not_there_says_so(folder: Path) -> None:
    kind, message = failure_of(run(make_context(), (str(folder / "absent"),)))
    assert kind == "evaluator_error"
    assert message.startswith("the script cannot be started: ")


def test_a_script_that_floods_its_output_is_stopped(folder: Path) -> None:
    code = "import sys\nwhile True: sys.stdout.write('x' * 1_000_000)"
    assert failure_of(run(make_context(), script(folder, code))) == ("too_large", "the script printed more than 10 MiB")


HANGING = """
import os, signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
open("pids", "w").write(f"{os.getpid()} {child.pid}")
signal.pause()
"""


def test_a_script_that_hangs_ends_with_all_its_children(folder: Path) -> None:
    score = run(make_context(), script(folder, HANGING), cwd=str(folder), agent_timeout_ms=1500)
    assert failure_of(score) == ("deadline", "the script did not end within 1.5 s")
    pids = [int(pid) for pid in (folder / "pids").read_text().split()]
    assert len(pids) == 2
    assert not [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]


def test_the_naive_way_waits_for_a_child_that_holds_the_pipe(folder: Path) -> None:
    process = subprocess.Popen(
        script(folder, HANGING), cwd=folder, stdout=subprocess.PIPE, stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(b"{}", timeout=1.5)
        process.kill()
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=0.5)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_script_may_give_a_verdict_and_results_per_criterion(folder: Path) -> None:
    answer = {
        "score": 0.9,
        "verdict": "fail",
        "results": [
            {"criterion": "tone", "score": 4, "reasoning": "kind"},
            {"criterion_name": "ok", "score": True, "scale": "binary"},
            {"criterion": "tone", "score": 9},
            "noise",
            {"score": 1},
        ],
    }
    context = make_context(criteria=(EvaluationCriteria("tone", scale="likert5"),))
    score = run(context, script(folder, f"print('''{json.dumps(answer)}''')"))
    assert [(each.criterion_name, each.value) for each in score.results] == [
        ("tone", 0.75),
        ("ok", 1.0),
        ("tone", None),
    ]
    assert score.results[2].error == "9 is outside 1 to 5 (likert5)"
    assert score.error == Failure("judge_error", "tone: 9 is outside 1 to 5 (likert5)", stage="evaluator")
    assert (score.score, score.verdict) == (0.0, None)


def test_a_script_may_give_a_verdict(folder: Path) -> None:
    answer = json.dumps({"score": 0.9, "verdict": "fail"})
    assert run(make_context(), script(folder, f"print('{answer}')")).verdict == "fail"


def test_an_unknown_verdict_is_left_to_the_score(folder: Path) -> None:
    assert run(make_context(), script(folder, 'print(\'{"score": 1, "verdict": "great"}\')')).verdict == "pass"


def test_options_may_be_an_object_or_keywords() -> None:
    options = CodeEvaluatorOptions(script="python check.py", cwd="/x", agent_timeout_ms=30_000)
    assert CodeEvaluator(options).options == options
    assert CodeEvaluator(script="python check.py", cwd="/x", agent_timeout_ms=30_000).options == options
    assert CodeEvaluator(options).kind == "code"


def test_settings_are_relative_to_the_eval_file(folder: Path) -> None:
    (folder / "judges").mkdir()
    (folder / "judges" / "j.sh").write_text(f"echo '{ANSWER}'")
    config = EvaluatorConfig("c", "code_judge", {"script": ["sh", "j.sh"], "cwd": "judges"}, base_dir=str(folder))
    assert asyncio.run(make_evaluator(config).evaluate(make_context())).score == 0.5  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "a code judge needs exactly one of `script` and `python`"),
        ({"script": "x", "python": "a.py:f"}, "a code judge needs exactly one of `script` and `python`"),
        ({"script": " "}, "`script` must not be empty"),
        ({"script": []}, "`script` must not be empty"),
        ({"python": "judge.py"}, "`python` must be path.py:function"),
        ({"script": "x", "timeout_seconds": 0}, "`timeout_seconds` must be more than 0"),
    ],
)
def test_settings_that_name_no_judge_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(EvalFileError, match=message):
        evaluator_of("code_judge", **settings)


FUNCTIONS = """
import os, signal

def as_dict(payload):
    print("log line")
    return {"score": 0.5, "hits": [payload["candidate_answer"]], "reasoning": str(os.getpid())}

def as_number(payload): return 0.25
def as_bool(payload): return True
async def as_coroutine(payload): return {"score": 0.75}
def as_nothing(payload): return None
def failing(payload): raise ValueError("no idea")
def hanging(payload): signal.pause()
def dying(payload): os._exit(7)
"""


@pytest.fixture
def module(folder: Path) -> Path:
    (folder / "judges.py").write_text(FUNCTIONS)
    return folder


def call(folder: Path, *functions: str, **settings: Any) -> list[EvaluationScore]:
    async def judge_all() -> list[EvaluationScore]:
        tools = Tools()
        async with tools.shared:
            scores = []
            for function in functions:
                named = {"python": f"judges.py:{function}", **settings}
                config = EvaluatorConfig("c", "code_judge", named, base_dir=str(folder))
                scores.append(await make_evaluator(config, tools).evaluate(make_context("hello")))  # type: ignore[misc]
            return scores

    return asyncio.run(judge_all())


def test_python_functions_return_an_answer_a_number_or_a_bool(module: Path) -> None:
    scores = call(module, "as_dict", "as_number", "as_bool", "as_coroutine")
    assert [score.score for score in scores] == [0.5, 0.25, 1.0, 0.75]
    assert scores[0].hits == ("hello",)


def test_a_python_function_stays_in_its_warm_process(module: Path) -> None:
    first, second = call(module, "as_dict", "as_dict")
    assert first.reasoning == second.reasoning
    assert first.reasoning != str(os.getpid())


def test_a_failing_python_function_affects_no_other_case(module: Path) -> None:
    functions = ("failing", "dying", "as_nothing", "hanging", "absent", "as_number")
    failing, dying, nothing, hanging, absent, fine = call(module, *functions, timeout_seconds=3)
    assert "raised ValueError: no idea" in failure_of(failing)[1]
    assert "crashed its process" in failure_of(dying)[1]
    assert failure_of(nothing)[1].endswith("its `score` is null")
    assert failure_of(hanging) == ("deadline", "judges.py:hanging did not return within 3 s; its process was ended")
    assert "has no 'absent'" in failure_of(absent)[1]
    assert fine.score == 0.25

"""A run that version 1 wrote: every later version must read it.

The files under tests/fixtures/runs-v1 are never changed. Its results.jsonl ends in a torn line on purpose.
"""

import shutil
from pathlib import Path

from tests.support.stored import ANSWER, JUDGE, RUN, at_noon, make_case, make_result, make_run

from agentv.storage.run.folder import RunFolder
from agentv.storage.run.stored import open_run
from agentv.types.failures import Failure
from agentv.types.messages import FilePart, Message, TextPart, ToolCall
from agentv.types.records.answer import AnswerRef

FOLDER = Path(__file__).parents[1] / "fixtures" / "runs-v1" / RUN.run_id


def test_the_run_is_read() -> None:
    run = open_run(FOLDER)
    assert run.run == make_run(
        tags=("ci",),
        git={"commit": "0f3c", "dirty": False},
        plan={
            "planned": 3,
            "suites": [{"path": "evals/refunds.yaml", "sha256": "ee"}],
            "targets": [{"name": "agent-v2", "provider": "mock", "api_key": "***"}],
            "seed": 0,
        },
    )
    assert run.state() == "finished"
    assert [event.type for event in run.events()] == ["started", "generation_started", "ended"]


def test_its_cases_are_read() -> None:
    first, second = open_run(FOLDER).cases()
    guideline = FilePart("./order.json", "/evals/order.json", '{"id": 7}', "11" * 32, 9, "application/json", True)
    photo = FilePart("./photo.png", "/evals/photo.png", None, "00" * 32, 6, "image/png")
    prompt = Message("user", (TextPart("May I return order 7?"), guideline, photo))
    assert first == make_case(input_messages=(prompt,))
    assert second == make_case(eval_id="order-9", case_key="v1:ee", line=40)


def test_its_answers_are_read_with_large_values_in_their_place() -> None:
    first, second = open_run(FOLDER).answers()
    read = Message("assistant", tool_calls=(ToolCall("read", {"$blob": "not ours"}),))
    assert first.output_messages == (*(ANSWER.output_messages or ()), read)
    assert first.usage == ANSWER.usage
    assert (second.text, second.generation) == ("It was sent.", 1)


def test_its_rows_are_read_in_their_current_generation() -> None:
    run = open_run(FOLDER)
    first, second = run.results()
    assert first == make_result(answer_ref=AnswerRef(0), seq=0)
    assert (second.slot.eval_id, second.slot.trial, second.generation, second.verdict) == ("order-9", 1, 1, "pass")
    assert (second.evaluator_results, second.single_form) == ((JUDGE,), True)
    assert run.counts() == {"fail": 1, "pass": 1}


def test_its_superseded_row_is_still_there() -> None:
    failed = [row for row in open_run(FOLDER).all_results() if row.status == "error"]
    failure = Failure("server_error", "HTTP 503 after 3 attempts", http_status=503, retryable=True)
    assert [row.error for row in failed] == [failure]
    assert (failed[0].score, failed[0].verdict) == (None, None)


def test_it_can_be_gone_on_with(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / FOLDER.name)
    store = RunFolder(tmp_path, FOLDER.name, clock=at_noon)
    assert store.append(make_result()).seq == 3
    store.close("finished")
    assert [event.type for event in open_run(tmp_path / FOLDER.name).events()][-2:] == ["torn_line_cut", "ended"]

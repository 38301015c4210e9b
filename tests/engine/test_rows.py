"""Rows without an answer: they have their task's generation, and are counted like all others."""

import pytest
from msgspec.structs import replace
from tests.support.stored import NOON

from agentv.engine.calling.fingerprints import StoredEvaluators
from agentv.engine.planning.plan import CaseTask
from agentv.engine.planning.prepared_case import PromptForm, prepare_case
from agentv.engine.planning.targets import KnownTargets
from agentv.engine.running.case_records import case_record
from agentv.engine.running.rows import broken_row, crashed_row, skipped_row
from agentv.scoring.counting.summary import Summary
from agentv.types.cases import BrokenCase, EvalCase, EvalSuite, Location, listed_cases
from agentv.types.messages import FilePart, Message
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord
from agentv.types.scales import EvaluationCriteria
from agentv.types.targets import ResolvedTarget

CASE = EvalCase("a", ())
BROKEN = BrokenCase("a", (), Location("s.jsonl", 7))


def task(case: EvalCase | BrokenCase) -> CaseTask:
    known: KnownTargets = object()  # type: ignore[assignment]  # targets are not used here
    return CaseTask(
        case, EvalSuite("s.jsonl", listed_cases([CASE])), ResolvedTarget("t", "mock", None), known, generation=3
    )


@pytest.mark.parametrize(
    "row",
    [
        broken_row("r", task(BROKEN), BROKEN, now=NOON),
        crashed_row("r", task(CASE), "oops", now=NOON),
        skipped_row("r", task(CASE), CASE, now=NOON),
    ],
)
def test_a_row_without_an_answer_is_of_its_tasks_generation(row: CaseResult) -> None:
    assert row.generation == 3


def record_of(case: EvalCase) -> CaseRecord:
    prepared = prepare_case(task(case), case, target_key="t", form=PromptForm())
    return case_record(prepared, StoredEvaluators([], in_key=[], canonical="[]", settings_class=lambda _type: None))


def test_a_stored_case_has_its_files() -> None:
    file = FilePart("notes.txt", "/notes.txt", "the notes", "aa", 9, "text/plain")
    record = record_of(EvalCase("a", (Message("user", (file,)),)))
    assert record.files == ({"path": "notes.txt", "sha256": "aa", "bytes": 9},)


def test_a_stored_case_has_its_criteria() -> None:
    record = record_of(EvalCase("a", (Message("user", "q"),), criteria=(EvaluationCriteria("tone"),)))
    assert [criterion["name"] for criterion in record.criteria] == ["tone"]


def test_a_stored_case_has_its_prompt() -> None:
    assert record_of(EvalCase("a", (Message("user", "q"),), prompt="short")).prompt == "short"


def test_a_broken_line_of_a_suite_whose_tags_came_as_a_list_is_counted() -> None:
    listed_tags: tuple[str, ...] = ["n"]  # type: ignore[assignment]  # as a program may give them
    broken = task(BROKEN)
    suite = replace(broken.suite, tags=listed_tags)
    summary = Summary(has_shared_cases=False)
    summary.add(broken_row("r", replace(broken, suite=suite), BROKEN, now=NOON), has_trials=False)
    assert [(group.by, group.name, group.counts) for group in summary.groups() if group.by == "tag"] == [
        ("tag", "n", {"error": 1})
    ]

"""The grid shows the answers of all targets to a case next to each other, with their differences."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.hostile_texts import HOSTILE_TEXTS
from tests.support.stored import make_case
from tests.support.viewer import Client, serving_view
from tests.view.projects import Elements, Project

from agentv import EvalCase, EvaluatorConfig, ProviderRequest, evaluate
from agentv.types.messages import Message
from agentv.view.answers import marked_answer, shared_question

YES = EvaluatorConfig("yes", "contains", {"value": "yes"})
QUESTIONS = tuple(f"question {number}" for number in range(8))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("grid"), QUESTIONS)


@pytest.fixture(scope="module")
def run_id(project: Project) -> str:
    small = {"*": "yes, the order is paid", "question 1": "no, it is lost", "question 2": "raise"}
    return project.run(
        {"small": small, "large": {"*": "no, the order is late", "question 3": "yes, the order is paid"}}
    )


@pytest.fixture(scope="module")
def client(project: Project, run_id: str) -> Iterator[Client]:
    assert (project.home / "runs" / run_id).is_dir()
    with serving_view(project.home) as viewer:
        yield viewer.client()


def cells(client: Client, run_id: str, query: str = "") -> dict[str, list[tuple[str, str]]]:
    """Return target and state of each cell by case."""
    found = client.get(f"/r/{run_id}/grid.json{query}").json()["cases"]
    return {case["eval_id"]: [(cell["target"], cell["state"]) for cell in case["cells"]] for case in found}


def test_each_case_has_the_answers_of_all_targets(client: Client, run_id: str) -> None:
    found = cells(client, run_id)
    assert found["case-0"] == [("small", "pass"), ("large", "fail")]
    assert found["case-2"] == [("small", "error"), ("large", "fail")]
    page = client.get(f"/r/{run_id}/grid").text
    assert "question 0" in page
    assert "expected" in page
    assert "overloaded" in page


def test_words_that_differ_from_the_first_column_are_marked(client: Client, run_id: str) -> None:
    page = client.get(f"/r/{run_id}/grid?q=case-0").text
    assert "<del>yes</del><ins>no</ins>, the order is <del>paid</del><ins>late</ins>" in page


def test_marks_can_be_switched_off(client: Client, run_id: str) -> None:
    page = client.get(f"/r/{run_id}/grid?q=case-0&diff=no").text
    assert "no, the order is late" in page
    assert "<ins>" not in page


def test_only_cases_with_different_results_can_be_shown(client: Client, run_id: str) -> None:
    found = cells(client, run_id, "?only=differ")
    assert "case-1" not in found  # failed by both
    assert "case-3" not in found  # passed by both
    assert set(found) == {"case-0", "case-2", "case-4", "case-5", "case-6", "case-7"}


def test_a_state_selects_cases_and_keeps_their_other_cells(client: Client, run_id: str) -> None:
    assert cells(client, run_id, "?state=error") == {"case-2": [("small", "error"), ("large", "fail")]}


def test_the_columns_are_chosen_by_target(client: Client, run_id: str) -> None:
    found = client.get(f"/r/{run_id}/grid.json?target=large&q=case-0").json()
    assert [column["target"] for column in found["columns"]] == ["large"]
    assert [cell["target"] for cell in found["cases"][0]["cells"]] == ["large"]


def test_tags_select_cases(client: Client, run_id: str) -> None:
    assert set(cells(client, run_id, "?tag=t1")) == {"case-1", "case-3", "case-5", "case-7"}


def test_a_column_has_its_pass_rate_with_interval(client: Client, run_id: str) -> None:
    small, large = client.get(f"/r/{run_id}/grid.json").json()["columns"]
    assert (small["pass_rate"], large["pass_rate"]) == (6 / 7, 1 / 8)
    assert small["pass_rate_interval"][0] < 6 / 7 < small["pass_rate_interval"][1]


def test_the_best_column_is_marked_only_if_it_is_significant(project: Project) -> None:
    clear = project.run({"small": {"*": "yes"}, "large": {"*": "no"}})
    unclear = project.run({"small": {"*": "yes"}, "large": {"*": "yes", "question 0": "no"}})
    with serving_view(project.home) as viewer:
        client = viewer.client()
        page, data = client.get(f"/r/{clear}/grid").text, client.get(f"/r/{clear}/grid.json").json()
        assert [column["is_best"] for column in data["columns"]] == [True, False]
        assert data["best"].startswith("* best: small, above large by")
        assert data["best"] in page
        assert "* best</b>" in page
        page, data = client.get(f"/r/{unclear}/grid").text, client.get(f"/r/{unclear}/grid.json").json()
        assert not any(column["is_best"] for column in data["columns"])
        assert data["best"].startswith("no significant best: small and large differ by")
        assert "* best</b>" not in page


def test_each_cell_leads_to_its_result(client: Client, run_id: str) -> None:
    (case,) = client.get(f"/r/{run_id}/grid.json?q=case-3").json()["cases"]
    for cell in case["cells"]:
        row = client.get(f"/r/{run_id}/row/{cell['seq']}.json").json()["row"]
        assert (row["eval_id"], row["target"]) == ("case-3", cell["target"])
        assert f'href="/r/{run_id}/row/{cell["seq"]}"' in client.get(f"/r/{run_id}/grid?q=case-3").text


def test_trials_are_one_entry_and_the_first_failure_is_shown(tmp_path: Path) -> None:
    calls: list[str] = []

    def answer(request: ProviderRequest) -> str:
        calls.append(request.question)
        return "yes" if len(calls) == 1 else f"no, call {len(calls)}"

    run = evaluate([EvalCase("one", "Is it?")], task=answer, evaluators=[YES], folder=tmp_path, trials=3)
    with serving_view(tmp_path) as viewer:
        client = viewer.client()
        (case,) = client.get(f"/r/{run.run_id}/grid.json").json()["cases"]
        (cell,) = case["cells"]
        assert (cell["passed"], cell["trials"], cell["answer"]) == (1, 3, "no, call 2")
        assert " 1 of 3 passed, 0.00" in client.get(f"/r/{run.run_id}/grid").text


def test_cases_are_paged(tmp_path: Path) -> None:
    cases = [EvalCase(f"case-{number:03}", "Is it?") for number in range(120)]
    run = evaluate(cases, task=lambda _: "yes", evaluators=[YES], folder=tmp_path, workers=1)
    with serving_view(tmp_path) as viewer:
        client, path = viewer.client(), f"/r/{run.run_id}/grid"
        last = client.get(f"{path}.json?page=3").json()
        assert (last["total"], len(last["cases"])) == (120, 20)
        page = client.get(f"{path}?page=2&diff=no").text
        assert "51–100 of 120 cases" in page  # noqa: RUF001 - a range
        assert f'href="{path}?diff=no&amp;page=3" rel="next"' in page
        assert "The list ends before this page." in client.get(f"{path}?page=9").text


@pytest.mark.parametrize("query", ["only=some", "diff=maybe", "page=0", "sort=size"])
def test_an_address_that_is_not_understood_is_explained(client: Client, run_id: str, query: str) -> None:
    reply = client.get(f"/r/{run_id}/grid?{query}")
    assert reply.status == 400
    assert query.partition("=")[0] in reply.text


def test_a_filter_that_matches_nothing_is_explained(client: Client, run_id: str) -> None:
    assert "No case matches." in client.get(f"/r/{run_id}/grid?q=zzz").text
    assert "Show cases with equal results, too" in client.get(f"/r/{run_id}/grid?q=case-1&only=differ").text


def test_hostile_texts_are_only_text(tmp_path: Path) -> None:
    project = Project(tmp_path, HOSTILE_TEXTS, ids=HOSTILE_TEXTS)
    answers = {text: f"{text} yes" for text in HOSTILE_TEXTS}
    run = project.run({"small": answers, "large": {text: f"no {text}" for text in HOSTILE_TEXTS}})
    with serving_view(project.home) as viewer:
        client = viewer.client()
        for query in ("", "?diff=no", "?q=%3Cscript%3E", "?tag=%22%3E%3Cscript%3E"):
            reply = client.get(f"/r/{run}/grid{query}")
            assert reply.status == 200
            Elements(reply.text).assert_harmless()
        assert "&lt;script&gt;" in client.get(f"/r/{run}/grid").text


def test_long_answers_are_shortened_and_not_compared(tmp_path: Path) -> None:
    project = Project(tmp_path, ("long",))
    run = project.run({"small": {"*": "yes " * 250_000}, "large": {"*": "no " * 300_000}})
    with serving_view(project.home) as viewer:
        reply = viewer.client().get(f"/r/{run}/grid")
        assert len(reply.text) < 100_000
        assert "characters omitted" in reply.text
        assert "differences are not marked" in reply.text


def test_marks_leave_out_the_white_space_behind_words() -> None:
    shown = marked_answer("within 14 days ", "within 30 days or so").markup
    assert "within <del>14</del> <ins>30</ins> days <ins>or so</ins>" in shown


def test_answers_that_differ_in_white_space_are_reported() -> None:
    assert "only white space differs" in marked_answer("a b", "a\nb").markup


def test_the_question_of_several_prompts_is_what_they_share() -> None:
    asked = Message("user", "2 and 2")
    cases = [
        make_case(question=f"{prompt} 2 and 2", input_messages=(Message("system", prompt), asked))
        for prompt in ("Add.", "Add, politely.")
    ]
    assert shared_question(cases) == "2 and 2"
    assert shared_question(cases[:1]) == "Add. 2 and 2"


@pytest.mark.parametrize("query", ["evaluator=yes:fail&target=small", "q=lost", "score=..0.5&target=small"])
def test_filters_of_results_select_cases(client: Client, run_id: str, query: str) -> None:
    assert set(cells(client, run_id, f"?{query}")) == {"case-1"}


def test_filters_of_results_keep_the_other_cells_of_a_case(client: Client, run_id: str) -> None:
    assert cells(client, run_id, "?q=lost") == {"case-1": [("small", "fail"), ("large", "fail")]}


def test_texts_that_differ_throughout_are_not_marked() -> None:
    before = "I am sorry, but the time for returning the lamp is over."
    after = "Yes: you can send it back for 30 days after delivery, and today is the last of these days."
    shown = marked_answer(before, after).markup
    assert "<ins>" not in shown
    assert "differs throughout" in shown
    assert after in shown
    assert "<ins>" in marked_answer(before, f"{before} {after}").markup

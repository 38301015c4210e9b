"""The comparison of two runs begins with what was lost, and with the sentence that says whether it is significant."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.hostile_texts import HOSTILE_TEXTS
from tests.support.viewer import Client, serving_view
from tests.view.projects import Elements, Project

from agentv import EvalCase, EvaluatorConfig, evaluate

QUESTIONS = tuple(f"question {number}" for number in range(12))
LOST = "case-1"
WON = "case-2"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("compared"), QUESTIONS)


@pytest.fixture(scope="module")
def runs(project: Project) -> tuple[str, str]:
    """Store two runs: the second loses case 1 with both targets, wins case 2, and has no result of case 3."""
    good = {"*": "yes, it is paid", "question 2": "no idea"}
    bad = {"*": "yes, it is paid", "question 1": "no, it is late", "question 3": "raise"}
    return project.run({"small": good, "large": good}), project.run({"small": bad, "large": bad})


@pytest.fixture(scope="module")
def client(project: Project, runs: tuple[str, str]) -> Iterator[Client]:
    assert all((project.home / "runs" / run).is_dir() for run in runs)
    with serving_view(project.home) as viewer:
        yield viewer.client()


def path_of(runs: tuple[str, str]) -> str:
    return f"/compare/{runs[0]}..{runs[1]}"


def names(client: Client, path: str) -> list[tuple[str, str]]:
    return [(case["eval_id"], case["target"]) for case in client.get(path).json()["cases"]]


def test_what_was_lost_is_listed_first(client: Client, runs: tuple[str, str]) -> None:
    data = client.get(f"{path_of(runs)}.json").json()
    assert [case["change"] for case in data["cases"]] == ["regressed", "regressed", "improved", "improved"]
    assert data["counts"] == {"changed": 4, "lost": 2, "won": 2, "same": 18, "errors": 2}
    page = client.get(path_of(runs)).text
    assert page.index(LOST) < page.index(WON)


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ("lost", {(LOST, "small"), (LOST, "large")}),
        ("won", {(WON, "small"), (WON, "large")}),
        ("errors", {("case-3", "small"), ("case-3", "large")}),
    ],
)
def test_each_kind_of_change_has_a_list(
    client: Client, runs: tuple[str, str], only: str, expected: set[tuple[str, str]]
) -> None:
    assert set(names(client, f"{path_of(runs)}.json?only={only}")) == expected


def test_cases_with_the_same_score_can_be_shown(client: Client, runs: tuple[str, str]) -> None:
    assert len(names(client, f"{path_of(runs)}.json?only=same")) == 18
    assert names(client, f"{path_of(runs)}.json?only=same&target=small&q=CASE-11") == [("case-11", "small")]


def test_both_answers_have_their_words_marked(client: Client, runs: tuple[str, str]) -> None:
    page = client.get(f"{path_of(runs)}?only=lost&target=small").text
    assert "<del>yes</del>, it is <del>paid</del>" in page
    assert "<ins>no</ins>, it is <ins>late</ins>" in page
    assert "<ins>" not in client.get(f"{path_of(runs)}?only=lost&diff=no").text


def test_each_answer_leads_to_its_result(client: Client, runs: tuple[str, str]) -> None:
    case = client.get(f"{path_of(runs)}.json?only=lost&target=large").json()["cases"][0]
    page = client.get(f"{path_of(runs)}?only=lost&target=large").text
    for side, run, answer in (("before", runs[0], "yes, it is paid"), ("after", runs[1], "no, it is late")):
        address = f"/r/{run}/row/{case[side]['seq']}"
        assert f'href="{address}"' in page
        assert client.get(f"{address}.json").json()["row"]["candidate_answer"] == answer


def test_the_sentence_is_that_of_the_command(client: Client, project: Project, runs: tuple[str, str]) -> None:
    command = [sys.executable, "-m", "agentv", "compare", *runs, "--format", "json"]
    done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, check=True)
    printed = json.loads(done.stdout)
    shown = client.get(f"{path_of(runs)}.json").json()
    assert shown["finding"] == printed["finding"]
    measures = {each["measure"]: each for each in printed["measures"]}
    assert (shown["difference"], shown["p"]) == (measures["score"]["difference"], measures["score"]["p"])
    assert f'<h1 dir="auto">{shown["finding"]}</h1>' in client.get(path_of(runs)).text


def test_several_targets_are_also_judged_each_by_itself(client: Client, runs: tuple[str, str]) -> None:
    sentence = client.get(f"{path_of(runs)}.json").json()["by_target"]
    assert "target small: " in sentence
    assert "target large: " in sentence
    assert sentence in client.get(path_of(runs)).text


def test_settings_that_differ_are_shown(project: Project, runs: tuple[str, str]) -> None:
    suite = project.folder / "suite.yaml"
    kept = suite.read_text()
    suite.write_text(kept.replace('"type": "contains"', '"type": "contains", "weight": 2.0'))
    changed = project.run({"small": {"*": "yes"}, "large": {"*": "yes"}})
    suite.write_text(kept)
    with serving_view(project.home) as viewer:
        client, path = viewer.client(), f"/compare/{runs[0]}..{changed}"
        (differing,) = client.get(f"{path}.json").json()["differs"]
        assert differing["what"] == "suite suite.yaml"
        page = client.get(path).text
        assert "1 setting differs" in page
        assert "differences in setup" in page


def test_a_comparison_is_not_computed_for_each_page(project: Project, runs: tuple[str, str]) -> None:
    with serving_view(project.home) as viewer:
        library = viewer.library
        before, after = map(library.open, runs)
        assert library.comparison(before, after) is library.comparison(*map(library.open, runs))


def test_pairs_are_paged(tmp_path: Path) -> None:
    project = Project(tmp_path, tuple(f"question {number}" for number in range(60)))
    runs = (
        project.run({"small": {"*": "yes"}, "large": {"*": "yes"}}),
        project.run({"small": {"*": "no"}, "large": {"*": "yes"}}),
    )
    with serving_view(project.home) as viewer:
        client, path = viewer.client(), path_of(runs)
        page = client.get(f"{path}?only=lost&page=2").text
        assert "51–60 of 60 pairs" in page  # noqa: RUF001 - a range
        assert f'href="{path}?only=lost&amp;page=1" rel="prev"' in page
        assert not set(names(client, f"{path}.json?only=lost")) & set(names(client, f"{path}.json?only=lost&page=2"))


def test_the_run_page_leads_to_the_comparison_with_the_run_before(client: Client, runs: tuple[str, str]) -> None:
    assert f'href="{path_of(runs)}"' in client.get(f"/r/{runs[1]}").text


def test_two_runs_of_the_list_are_compared_without_script(client: Client, runs: tuple[str, str]) -> None:
    page = client.get("/").text
    assert '<form action="/compare"' in page
    assert all(f'name="run" value="{run}"' in page for run in runs)
    # The list begins with the newest run, and browsers send marked boxes in the order of the page.
    reply = client.get(f"/compare?run={runs[1]}&run={runs[0]}")
    assert (reply.status, reply.headers["Location"]) == (303, path_of(runs))
    reply = client.get(f"/compare?a={runs[0]}&b={runs[1]}")
    assert (reply.status, reply.headers["Location"]) == (303, path_of(runs))


@pytest.mark.parametrize("query", ["", "?run=latest", "?run=a&run=b&run=c", "?a=latest"])
def test_a_comparison_of_other_than_two_runs_is_explained(client: Client, query: str) -> None:
    reply = client.get(f"/compare{query}")
    assert reply.status == 400
    assert "a comparison needs two runs" in reply.text


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/compare/latest", 400, "does not name two runs"),
        ("/compare/a..b..c", 400, "does not name two runs"),
        ("/compare/..latest", 400, "does not name two runs"),
        ("/compare/latest..none", 404, "none"),
        ("/compare/baseline.jsonl..latest", 404, "agentv compare FILE RUN"),
        ("/compare/..%2f..%2fetc..latest", 400, "does not name two runs"),
        ("/compare/latest..%2fetc%2fpasswd", 404, "there is no run"),
        ("/compare?a=%2fetc&b=latest", 404, "there is no run"),
        ("/compare/latest~1..latest?only=some", 400, "use one of changed, lost, won, same, errors"),
        ("/compare/latest~1..latest?page=x", 400, "page"),
    ],
)
def test_a_bad_address_is_explained(client: Client, path: str, status: int, said: str) -> None:
    reply = client.get(path)
    assert reply.status == status
    assert said in reply.text
    assert "Traceback" not in reply.text


def test_runs_without_a_common_case_are_explained(tmp_path: Path) -> None:
    one, two = Project(tmp_path, ("question 1",)), ("question 2",)
    first = one.run({"small": {"*": "raise"}, "large": {"*": "raise"}})
    second = Project(tmp_path, two).run({"small": {"*": "yes"}, "large": {"*": "yes"}})
    with serving_view(one.home) as viewer:
        reply = viewer.client().get(f"/compare/{first}..{second}")
        assert reply.status == 409
        assert "These runs cannot be compared" in reply.text
        assert "no case has a score in both" in reply.text


def test_runs_of_different_cases_are_compared_as_a_whole(tmp_path: Path) -> None:
    runs = [
        evaluate(
            [EvalCase(f"{name}-{number}", "Is it?") for number in range(20)],
            task=lambda _: "yes",
            evaluators=[EvaluatorConfig("yes", "contains", {"value": "yes"})],
            folder=tmp_path,
        ).run_id
        for name in ("first", "second")
    ]
    with serving_view(tmp_path) as viewer:
        page = viewer.client().get(f"/compare/{runs[0]}..{runs[1]}").text
        assert "unpaired" in page
        assert "too few cases in common" in page


def test_a_page_behind_the_last_one_is_explained(client: Client, runs: tuple[str, str]) -> None:
    page = client.get(f"{path_of(runs)}?only=lost&page=9").text
    assert "The list ends before this page." in page
    assert f'href="{path_of(runs)}?only=lost"' in page


def test_hostile_texts_are_only_text(tmp_path: Path) -> None:
    project = Project(tmp_path, HOSTILE_TEXTS, ids=HOSTILE_TEXTS)
    before = project.run({name: {text: f"{text} yes" for text in HOSTILE_TEXTS} for name in ("small", "large")})
    after = project.run({name: {text: f"no {text}" for text in HOSTILE_TEXTS} for name in ("small", "large")})
    with serving_view(project.home) as viewer:
        client = viewer.client()
        for query in ("", "?diff=no", "?q=%3Cscript%3E", "?target=%22%3E%3Cscript%3E", "?only=same"):
            reply = client.get(f"/compare/{before}..{after}{query}")
            assert reply.status == 200
            Elements(reply.text).assert_harmless()


def test_view_opens_the_comparison_of_two_runs(project: Project, runs: tuple[str, str]) -> None:
    command = [sys.executable, "-m", "agentv", "view", *runs, "--no-open"]
    with subprocess.Popen(command, cwd=project.folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
    assert f"{path_of(runs)}?token=" in first


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("latest~1", "latest", "latest"), "one run, or two to compare them"),
        (("latest", "latest"), "give two different runs"),
    ],
)
@pytest.mark.usefixtures("runs")
def test_view_opens_one_run_or_two_different_ones(project: Project, names: tuple[str, ...], said: str) -> None:
    command = [sys.executable, "-m", "agentv", "view", *names, "--no-open"]
    done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert said in done.stderr


def test_the_question_is_the_users_without_the_prompt(tmp_path: Path) -> None:
    project = Project(tmp_path, ["May I return it?"])
    suite = json.loads((tmp_path / "suite.yaml").read_text())
    suite |= {"evalcases": {"file": suite.pop("tests")}, "prompts": [{"id": "brief", "system": "Answer in one sentence."}]}
    (tmp_path / "suite.yaml").write_text(json.dumps(suite))
    before, after = (project.run({"small": {"*": "yes"}, "large": {"*": "yes"}}) for _ in range(2))
    with serving_view(project.home) as viewer:
        page = viewer.client().get(f"/compare/{before}..{after}?only=same").text
    assert "May I return it?" in page
    assert "Answer in one sentence." not in page

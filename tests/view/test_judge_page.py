"""A judge's page: how far it agrees with people in a run with labels, and its calibrations."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.viewer import Client, serving_view

from agentv import EvalCase, EvaluatorConfig, ProviderRequest, evaluate
from agentv.storage.judgements.calibrations import save_calibration
from agentv.storage.run.find import runs_folder
from agentv.storage.run.labels import append_labels
from agentv.storage.run.stored import open_run
from agentv.types.records.answer import AnswerRef
from agentv.types.records.label import Label
from agentv.types.summaries import Calibration, Confusion

JUDGE = "tone/<b>"
NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
ADDRESS = "/judge/tone%2F%3Cb%3E"
CASES = tuple(EvalCase(f"c-{number}", f"question {number}") for number in range(10))


def answer(request: ProviderRequest) -> str:
    return "good" if request.question[-1] in "0123456" else "bad"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judged") / ".agentv"
    judge = EvaluatorConfig(JUDGE, "contains", {"value": "good"})
    run_id = evaluate(CASES, task=answer, evaluators=[judge], folder=folder).run_id
    stored = open_run(runs_folder(folder) / run_id)
    labels = [
        Label(
            slot=row.slot,
            answer_key=row.answer_key,
            answer_ref=AnswerRef(row.answer_seq or 0),
            criterion=JUDGE,
            score=int(row.eval_id[-1] in "01234"),
            annotator="ada",
            time=NOON,
            reasoning="<script>alert(1)</script>",
        )
        for row in stored.results()
    ]
    append_labels(stored.folder, labels, run_id=run_id)
    return folder


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[Client]:
    with serving_view(home) as viewer:
        yield viewer.client()


def test_the_page_compares_the_judge_with_the_labels_of_a_run(client: Client) -> None:
    page = client.get(ADDRESS)
    assert page.status == 200
    assert "agrees with human labels on 80 % of 10 answers" in page.text
    assert "judge passes, humans pass: 5; judge passes, humans fail: 2" in page.text
    (card,) = client.get(f"{ADDRESS}.json").json()["cards"]
    assert card["confusion"] == {"both_pass": 5, "judge_alone": 2, "people_alone": 0, "both_fail": 3}


def test_names_and_reasons_of_people_are_texts(client: Client) -> None:
    page = client.get(ADDRESS).text
    assert "<b>" not in page.replace("<b><", "")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_page_of_the_run_links_to_its_judges(client: Client, home: Path) -> None:
    (folder,) = runs_folder(home).iterdir()
    assert f'href="{ADDRESS}?run={folder.name}"' in client.get(f"/r/{folder.name}").text
    assert client.get(f"{ADDRESS}?run={folder.name}").status == 200


def test_a_judge_without_labels_and_calibrations_is_not_found(client: Client) -> None:
    reply = client.get("/judge/other")
    assert reply.status == 404
    assert "agentv label" in reply.text


def test_a_calibration_is_shown_without_any_run(tmp_path: Path) -> None:
    home = tmp_path / ".agentv"
    save_calibration(
        home,
        Calibration(
            evaluator="tone",
            criterion="tone",
            setups=("aa",),
            run_id="20260131T120000.000-aaaaaa",
            labelled_at=NOON,
            annotators=2,
            cases=80,
            confusion=Confusion(43, 4, 5, 28),
            sensitivity=None,
            specificity=None,
            kappa=0.77,
        ),
    )
    with serving_view(home) as viewer:
        client = viewer.client()
        page = client.get("/judge/tone")
        assert "Calibration of 2026-01-31: the same verdict on 71 of 80 answers, kappa 0.77." in page.text
        assert "judge passes, humans pass: 43" in page.text
        (saved,) = client.get("/judge/tone.json").json()["calibrations"]
        assert saved["confusion"]["both_fail"] == 28


def test_a_calibration_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    home = tmp_path / ".agentv"
    (home / "calibrations").mkdir(parents=True)
    (home / "calibrations" / "tone.json").write_text("{")
    with serving_view(home) as viewer:
        page = viewer.client().get("/judge/tone")
    assert "tone.json" in page.text
    assert "agentv judge calibrate" in page.text

"""Stored runs of a small suite, and the viewer that shows them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.viewer import Client, Viewer, serving_view

from agentv import EvalCase, EvaluatorConfig, ProviderRequest, evaluate

CASES = tuple(EvalCase(f"sum-{number}", f"What is {number} + 2?", tags=("even",)) for number in range(6))
FOUR = EvaluatorConfig("four", "contains", {"value": "4"})


def answer(request: ProviderRequest) -> str:
    if request.question.startswith("What is 5 "):
        return "<i>" + "long " * 50_000 + "end"
    return "It is 4." if request.question.startswith("What is 2 ") else "<b>I do not know.</b>"


def _store_run(home: Path) -> str:
    return evaluate(CASES, task=answer, evaluators=[FOUR], folder=home, trials=2).run_id


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project") / ".agentv"
    _store_run(folder)
    return folder


@pytest.fixture(scope="module")
def run_id(home: Path) -> str:
    (folder,) = (home / "runs").iterdir()
    return folder.name


@pytest.fixture(scope="module")
def viewer(home: Path) -> Iterator[Viewer]:
    with serving_view(home, reviewers=("ada", "bob")) as viewer:
        yield viewer


@pytest.fixture
def client(viewer: Viewer) -> Client:
    return viewer.client()

"""Words of other tools on the command line and in eval files: taken where they mean the same, else answered."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from agentv.cli.main import main

SUITE = "evalcases: [{id: a, expected_outcome: x, input_messages: [{role: user, content: hi}]}]\n"
TARGETS = "targets: [{name: t, provider: mock, response: hello}]\n"
RULE = "execution: {evaluators: [{name: e, type: contains, value: hello}]}\n"


class Done(NamedTuple):
    """The exit code of a command, and what it printed."""

    code: object
    said: str


Agentv: TypeAlias = Callable[..., Done]


@pytest.fixture
def agentv(capsys: pytest.CaptureFixture[str]) -> Agentv:
    def call(*words: str) -> Done:
        with pytest.raises(SystemExit) as ended:
            main(words)
        said = capsys.readouterr()
        return Done(ended.value.code, f"{said.out}{said.err}")

    return call


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "suite.yaml").write_text(SUITE + RULE)
    (tmp_path / "targets.yaml").write_text(TARGETS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("option", ["--repeat", "--epochs"])
def test_a_number_of_repeats_is_a_number_of_trials(agentv: Agentv, option: str) -> None:
    done = agentv("run", "suite.yaml", option, "3")
    assert done.code == 0, done.said
    assert "3 of 3" in done.said


@pytest.mark.parametrize("option", ["--concurrency", "--max-concurrency", "--max-connections"])
def test_a_number_of_calls_at_once_is_a_number_of_workers(agentv: Agentv, option: str) -> None:
    assert agentv("run", "suite.yaml", option, "2").code == 0
    refused = agentv("run", "suite.yaml", option, "0")
    assert refused.code == 4
    assert "--workers" in refused.said


def test_a_filter_selects_cases(agentv: Agentv) -> None:
    assert agentv("run", "suite.yaml", "--filter", "a*").code == 0
    assert agentv("run", "suite.yaml", "--filter", "b*").code == 5


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("run", "--watch"), "`agentv run --cache on`"),
        (("run", "--model", "x"), "`--target NAME` of targets.yaml, or without a file `--target PROVIDER:MODEL`"),
        (("run", "--model", "openai/gpt-4o"), "Here it is `--target openai:gpt-4o`, which needs no targets file."),
        (("run", "--model=openai:gpt-4o"), "Here it is `--target openai:gpt-4o`, which needs no targets file."),
        (("compare", "--model", "openai/gpt-4o"), "Here it is `agentv run --target openai:gpt-4o`"),
        (("run", "suite.yaml", "--target", "openai/gpt-4o-mini"), "Did you mean 'openai:gpt-4o-mini'?"),
        (("run", "-n", "3"), "Here it is `--workers N` for concurrent calls, or `--trials N` to repeat each case."),
        (("evaluate",), "No such command 'evaluate'. `agentv run` runs eval files."),
        (("show", "--filter-failing"), "`agentv retry RUN --failed`"),
        (("run", "--html"), "Here it is `-o report.html`."),
        (("compare", "--html"), "`agentv report RUN -o report.html`"),
        (("run", "--out"), "Here it is `-o FILE`."),
        (("run", "--threshold"), "Here it is `--gate 'mean >= X'`."),
        (("check", "--threshold"), "Here it is `agentv run --gate 'mean >= X'`."),
        (("run", "--worker"), "Did you mean '--workers'?"),
    ],
)
def test_other_words_are_answered_with_ours(agentv: Agentv, words: tuple[str, ...], answer: str) -> None:
    done = agentv(*words)
    assert done.code == 4
    assert answer in done.said


@pytest.mark.parametrize("option", ["--html", "--question", "--snapshot"])
def test_no_option_is_suggested_that_only_looks_alike(agentv: Agentv, option: str) -> None:
    assert "Did you mean" not in agentv("run", option).said


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f"name: x\n{SUITE}", "unknown key 'name'; `dataset` names the file"),
        (f"threshold: 0.8\n{SUITE}", "unknown key 'threshold'; write `pass_score: 0.8`"),
        (f"maxConcurrency: 3\n{SUITE}", "here it is `workers`"),
        (SUITE.replace("input_messages: [{role: user, content: hi}]", "question: hi"), "here it is `input`"),
        (SUITE.replace("id: a", "name: a"), "unknown key 'name'; here it is `id`"),
        (SUITE.replace("id: a", "id: a, answer: x"), "unknown key 'answer'; here it is `expected`"),
        (f"evaluators: [{{name: c, type: contains, expected: x}}]\n{SUITE}", "unknown key 'expected'; write `value`"),
        (
            f"evaluators: [{{name: c, type: contains, value: x, threshold: 0.5}}]\n{SUITE}",
            "write `required: 0.8`, the lowest score that may pass",
        ),
        (f"evaluators: [{{type: contains, value: Hi you}}]\n{SUITE}", "for example `name: contains-hi-you`"),
        (f"defaultTest: {{}}\n{SUITE}", "`defaultTest` is promptfoo's; here it is the suite's `evaluators` and `vars`"),
        (f"scorer: x\n{SUITE}", "`scorer` is inspect's"),
        (f"goldens: []\n{SUITE}", "`goldens` is DeepEval's; here it is `evalcases`"),
        (SUITE.replace("id: a", "id: a, retrieval_context: [x]"), "`retrieval_context` is DeepEval's"),
    ],
)
def test_keys_of_other_tools_are_answered_with_ours(agentv: Agentv, project: Path, text: str, answer: str) -> None:
    (project / "suite.yaml").write_text(text)
    done = agentv("check", "suite.yaml")
    assert done.code == 4
    assert answer in done.said


def test_a_model_with_a_slash_is_answered_without_a_targets_file(agentv: Agentv, project: Path) -> None:
    (project / "targets.yaml").unlink()
    done = agentv("run", "suite.yaml", "--target", "openai/gpt-4o-mini")
    assert (done.code, "Did you mean 'openai:gpt-4o-mini', which needs no file?" in done.said) == (4, True), done.said


def test_check_answers_a_model_with_a_slash(agentv: Agentv, project: Path) -> None:
    (project / "suite.yaml").write_text(f"target: openai/gpt-4o-mini\n{SUITE}{RULE}")
    done = agentv("check", "suite.yaml")
    assert (done.code, "did you mean 'openai:gpt-4o-mini'?" in done.said) == (4, True), done.said


def test_a_tag_of_cases_without_tags_names_the_column(agentv: Agentv, project: Path) -> None:
    (project / "rows.csv").write_text("id,input,tag\na,hi,x\n")
    done = agentv("run", "rows.csv", "--evaluator", "contains=hello", "--tag", "x")
    assert done.code == 5
    assert "no case has any tag: tags are the key or the column `tags`, not `tag`" in done.said

"""Results that one can read: their text, what passed and failed, HTML for notebooks, data frames and files."""

import copy
import json
import pickle
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from agentv import AggregatedEvaluationResult, ConfigError, EvalCase, RunReport, evaluate, run_evaluation_sync

CONFIG = {
    "evaluators": [
        {"type": "contains", "value": "please", "criterion": "polite"},
        {"type": "length", "max": 4, "unit": "words", "criterion": "short"},
    ]
}
CRITERIA = [{"name": "polite"}, {"name": "short", "scale": "likert5"}]
BROKEN = {"type": "llm_judge", "name": "tone", "judge": lambda _request: "no verdict"}


def judged(answer: str, *more: object) -> AggregatedEvaluationResult:
    given = {"response": answer, "criteria": CRITERIA}
    return run_evaluation_sync(given, {"evaluators": [*CONFIG["evaluators"], *more]})


def report_of(*answers: str) -> RunReport:
    cases = [EvalCase(answer, answer) for answer in answers]
    evaluators = [{"type": "contains", "value": "yes"}, {"type": "contains", "name": "<b>", "value": "<script>"}]
    return evaluate(cases, task=lambda request: request.question, evaluators=evaluators)


def test_a_judgement_shows_its_verdict_and_the_reason_of_each_criterion() -> None:
    result = judged("Wait.")
    assert str(result).splitlines() == [
        "FAIL 0.50 (2 of 2 scored)",
        '  fail  0.00                   polite  expected "please", got "Wait."',
        "  pass  1.00 (5.0 on likert5)  short   has 1 word",
    ]
    assert result.passed is False
    assert [each.criterion_name for each in result.failures] == ["polite"]
    assert result.failures[0].reasoning == 'expected "please", got "Wait."'


def test_a_judgement_without_failures_passed() -> None:
    result = judged("Wait please.")
    assert (result.passed, result.failures) == (True, ())
    assert str(result).startswith("PASS 1.00 (2 of 2 scored)")


def test_a_case_from_python_has_no_place_in_a_file() -> None:
    (row,) = report_of("yes").results
    assert (row.file, row.line) == ("", 0)


def test_a_broken_judge_is_a_failure_and_nothing_passes() -> None:
    result = judged("Wait please.", {**BROKEN, "criterion": "polite"})
    assert result.passed is False
    assert [each.criterion_name for each in result.failures] == ["polite"]
    assert "no usable verdict" in (result.failures[0].error or "")
    assert str(result).startswith("ERROR 1.00 (2 of 3 scored)")


def test_where_nothing_was_judged_nothing_passed_or_failed() -> None:
    result = run_evaluation_sync({"response": "x"}, {"evaluators": [BROKEN]})
    assert result.passed is None
    assert [each.error is None for each in result.failures] == [False]


def test_control_characters_do_not_reach_a_terminal() -> None:
    verdict = {"score": 0.5, "hits": [], "misses": [], "reasoning": "\x1b[2Jgone\u202e"}
    result = run_evaluation_sync({"response": "x"}, {"evaluators": [{"type": "llm_judge", "judge": lambda _: verdict}]})
    assert result.results[0].reasoning == verdict["reasoning"]
    assert str(result).endswith(r"\x1b[2Jgone\u202e")


def test_a_report_shows_its_verdict_targets_and_failures() -> None:
    report = report_of("yes <script>", "yes", "no")
    assert str(report).splitlines() == [
        "FAIL: 1 of 3 judged results passed (33.33 %).",
        "  task · 1 pass, 2 fail · mean 0.50",
        '  fail  0.00  no · task   contains: expected "yes", got "no" | <b>: expected "<script>", got "no"',
        '  fail  0.50  yes · task  <b>: expected "<script>", got "yes"',
    ]
    assert report.passed is False
    assert [row.eval_id for row in report.failures] == ["yes", "no"]
    row = report.failures[0]
    assert row.passed is False
    assert [each.name for each in row.failures] == ["<b>"]
    assert str(row).splitlines()[:2] == [
        "FAIL 0.50 yes · task",
        '  fail  0.00  <b>       expected "<script>", got "yes"',
    ]


def test_a_report_passed_with_its_gates_and_judged_nothing_without_results() -> None:
    cases = [EvalCase("a", "a")]
    found = {"type": "contains", "value": "a"}
    assert evaluate(cases, task=lambda _request: "a", evaluators=[found]).passed is True

    def broken(_request: object) -> str:
        raise RuntimeError("down")

    report = evaluate(cases, task=broken, evaluators=[found])
    assert report.passed is None
    assert report.failures[0].passed is None
    assert "broken raised RuntimeError" in str(report)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_html_for_notebooks_is_escaped_and_has_no_script() -> None:
    report = report_of("yes", '<script>alert("x")</script><img src=x onerror=alert(1)>')
    for shown in (judged('<img src=x onerror="alert(1)">'), report, report.failures[0]):
        read = Tags()
        read.feed(shown._repr_html_())
        assert set(read.tags) <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
        assert any(text.startswith("FAIL") for text in read.texts)
        assert any("expected" in text for text in read.texts)


def test_the_mean_of_a_target_stands_under_its_heading() -> None:
    read = Tags()
    read.feed(report_of("yes")._repr_html_())
    assert read.texts[-6:] == ["target", "results", "mean score", "task", "1 fail", "0.50"]


def test_a_report_is_a_data_frame() -> None:
    frame = report_of("yes <script>", "yes").to_dataframe()
    assert frame.groupby("target")["score"].mean().to_dict() == {"task": 0.75}
    assert list(frame["score.contains"]) == [1.0, 1.0]
    assert list(frame["score.<b>"]) == [1.0, 0.0]
    assert list(frame["verdict"]) == ["pass", "fail"]


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "in memory"])
def test_a_frame_and_a_notebook_have_the_question_and_what_was_expected(tmp_path: Path, *, is_stored: bool) -> None:
    cases = [
        EvalCase("a", "How <many>?", expected_outcome="Says six"),
        EvalCase(
            "b", "Who?", expected_outcome="Names her", expected_messages=[{"role": "assistant", "content": "Ada"}]
        ),
    ]
    evaluators = [{"name": "six", "type": "contains", "value": "six"}]
    folder = tmp_path / ".agentv" if is_stored else None
    report = evaluate(cases, task=lambda _: "Five.", evaluators=evaluators, folder=folder)
    for each in (report, pickle.loads(pickle.dumps(report))):
        frame = each.to_dataframe()
        assert list(frame["question"]) == ["How <many>?", "Who?"]
        assert list(frame["expected"]) == ["Says six", "Ada"]
        assert list(frame["answer"]) == ["Five.", "Five."]
    shown = report._repr_html_()
    assert "<td style='text-align:left'>How &lt;many&gt;?</td>" in shown
    assert "<td style='text-align:left'>Ada</td><td style='text-align:left'>Five.</td>" in shown
    if folder is not None:
        shutil.rmtree(folder)
        assert list(report.to_dataframe()["question"]) == [None, None]


FRAME_WITHOUT = """
import sys
for name in {blocked!r}:
    sys.modules[name] = None
from agentv import AgentvError, EvalCase, evaluate
report = evaluate([EvalCase("a", "a")], task=lambda r: "a", evaluators=[{{"type": "contains", "value": "a"}}])
try:
    frame = report.to_dataframe()
except AgentvError as error:
    print(error)
else:
    print(type(frame).__module__.partition(".")[0], hasattr(frame, "__arrow_c_stream__"), frame["score"].to_pylist())
"""


def frame_without(*blocked: str) -> str:
    code = FRAME_WITHOUT.format(blocked=blocked)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_without_pandas_and_polars_the_frame_is_arrow_or_a_message() -> None:
    assert frame_without("pandas", "polars") == "arro3 True [1.0]"
    assert "needs optional packages; install them with: pip install 'agentv[parquet]'" in frame_without(
        "pandas", "polars", "arro3", "arro3.core"
    )


def test_a_report_is_saved_in_the_format_of_its_suffix(tmp_path: Path) -> None:
    report = report_of("yes", "no")
    report.save(tmp_path / "x.html")
    assert "<html" in (tmp_path / "x.html").read_text()
    report.save(str(tmp_path / "x.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert [line["eval_id"] for line in lines] == ["yes", "no"]
    with pytest.raises(ConfigError, match=r"x\.foo: unknown format; the file name must end in \.jsonl"):
        report.save(tmp_path / "x.foo")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.html", "x.jsonl"]


def test_a_report_of_evaluate_can_be_copied_and_pickled(tmp_path: Path) -> None:
    report = pickle.loads(pickle.dumps(copy.deepcopy(report_of("yes"))))
    report.save(tmp_path / "x.md")
    assert (tmp_path / "x.md").exists()


def test_a_report_with_a_baseline_shows_the_comparison(tmp_path: Path) -> None:
    cases = [EvalCase(name, name) for name in ("a", "b")]
    evaluators = [{"type": "contains", "value": "yes"}]
    folder = tmp_path / ".agentv"
    evaluate(cases, task=lambda _request: "yes", evaluators=evaluators, folder=folder, name="v1")
    report = evaluate(cases, task=lambda _request: "no", evaluators=evaluators, folder=folder, baseline="v1")
    assert "  compared with 20" in str(report)
    assert "mean score -1.00 (2 cases)" in str(report)
    assert "compared with 20" in report._repr_html_()

"""Evaluators and providers of one's own."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentv import (
    EvalCase,
    EvaluationContext,
    EvaluationResult,
    EvaluationScore,
    PluginError,
    ProviderRequest,
    RunReport,
    TargetConfig,
    evaluate,
    evaluator,
    provider,
    report,
    store,
)
from agentv.engine.plugins.loading import load_specs

PLUGIN = '''
from dataclasses import dataclass
from agentv import evaluator, provider

@evaluator("short")
def short(context, *, limit: int = 3):
    """The answer has at most `limit` characters."""
    return len(context.candidate) <= limit

@evaluator("exact")
@dataclass(frozen=True)
class Exact:
    wanted: str

    def evaluate(self, context):
        return context.candidate == self.wanted

@provider("shout")
async def shout(request, *, mark: str = "!"):
    return request.question.upper() + mark
'''


def run_with(tmp_path: Path, suite: str, plugin: str = PLUGIN) -> Any:
    (tmp_path / ".git").mkdir()
    (tmp_path / "mine.py").write_text(plugin)
    (tmp_path / ".agentv.yaml").write_text("plugins: [mine.py]")
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: shout, mark: '?'}]")
    (tmp_path / "suite.yaml").write_text(suite)
    return evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv")


SUITE = """
evalcases:
  - id: a
    expected_outcome: loud
    input_messages: [{role: user, content: hi}]
    evaluators: [%s]
"""


def test_plugin_file_provides_functions_and_classes_with_settings(tmp_path: Path) -> None:
    evaluators = "{name: s, type: short, limit: 2}, {name: e, type: exact, wanted: 'HI?'}"
    (row,) = run_with(tmp_path, SUITE % evaluators).results
    assert row.candidate_answer == "HI?"
    assert [(result.type, result.score) for result in row.evaluator_results] == [("short", 0.0), ("exact", 1.0)]


@pytest.mark.parametrize(
    ("setting", "message"),
    [("{name: s, type: short, limt: 2}", "limt"), ("{name: s, type: short, limit: many}", "limit")],
)
def test_a_plugins_settings_are_as_strict_as_ours(tmp_path: Path, setting: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        run_with(tmp_path, SUITE % setting)
    assert "suite.yaml:6:" in str(caught.value)


def test_a_plugin_that_cannot_be_imported_is_named_with_what_it_raised(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"mine\.py.*ZeroDivisionError"):
        run_with(tmp_path, SUITE % "{name: s, type: short}", plugin="1 / 0")


def test_an_evaluator_function_must_take_the_context_alone() -> None:
    with pytest.raises(PluginError, match=r"settings after `\*`; its signature is wrong\(context: .*, limit: int\)"):

        @evaluator("wrong")
        def wrong(context: EvaluationContext, limit: int) -> bool:
            return len(context.candidate) < limit


def test_an_evaluator_class_must_evaluate() -> None:
    with pytest.raises(PluginError, match=r"no method evaluate\(context\)"):

        @evaluator("wrong")
        class Wrong:
            pass


def test_a_provider_class_must_invoke_asynchronously() -> None:
    with pytest.raises(PluginError, match=r"no method `async invoke\(request\)`"):

        @provider("wrong")
        class Wrong:
            def invoke(self, _request: ProviderRequest) -> str:
                return ""


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from agentv import evaluator\n@evaluator('contains')\ndef f(context): return 1\n"
    )
    with pytest.raises(PluginError, match="'contains' is already taken"):
        load_specs(["mine.py"], base_dir=str(tmp_path))


def test_a_provider_class_answers_with_its_settings(tmp_path: Path) -> None:
    plugin = """
from dataclasses import dataclass
from agentv import ProviderResponse, provider

@provider("fixed")
@dataclass(frozen=True)
class Fixed:
    answer: str

    async def invoke(self, request):
        return ProviderResponse(self.answer)
"""
    (tmp_path / "mine.py").write_text(plugin)
    specs = load_specs(["mine.py"], base_dir=str(tmp_path))
    assert "fixed" in specs.providers
    assert specs.providers.get("fixed").load_settings().__name__ == "Fixed"


def test_an_async_evaluator_is_awaited() -> None:
    @dataclass
    class Slow:
        kind: str = "slow"

        async def evaluate(self, _context: EvaluationContext) -> float:
            return 0.5

    case = EvalCase("a", "hi")
    target = TargetConfig("t", "mock", {"response": "x"})
    assert evaluate([case], target=target, evaluators=[Slow()], gates="none").results[0].score == 0.5


def test_what_a_plugin_says_about_itself_is_its_first_line() -> None:
    @evaluator("documented")
    def documented(_context: EvaluationContext) -> bool:
        """Say something.

        And more.
        """
        return True

    mark = documented.__agentv_spec__  # type: ignore[attr-defined]  # what the decorator leaves
    assert mark[1].summary == "Say something."


@pytest.mark.parametrize(
    ("returned", "score"),
    [
        (True, 1.0),
        (0.25, 0.25),
        (1, 1.0),
        (EvaluationScore(0.5, hits=("half",)), 0.5),
        (EvaluationResult("tone", 4, scale="likert5"), 0.75),
        ((EvaluationResult("tone", 5, scale="likert5"), EvaluationResult("correct", "fail")), 0.5),
        ([EvaluationResult("tone", 5, scale="likert5"), EvaluationResult("correct", "fail", scale="pass/fail")], 0.5),
    ],
)
def test_an_evaluator_function_returns_whatever_is_simplest(returned: Any, score: float) -> None:
    @evaluator("anything")
    def anything(_context: EvaluationContext) -> Any:
        return returned

    target = TargetConfig("t", "mock", {"response": "x"})
    (row,) = evaluate([EvalCase("a", "hi")], target=target, evaluators=[anything], gates="none").results
    assert row.error is None
    assert row.score == score
    assert len(row.evaluator_results[0].results) == (len(returned) if isinstance(returned, list | tuple) else 1)


def test_a_report_function_takes_the_report_and_the_rows() -> None:
    with pytest.raises(
        PluginError, match=r"must take only the arguments report and rows; its signature is one\(report"
    ):

        @report("wrong")
        def one(report: RunReport) -> str:
            return report.run_id

    wrong = r"'wrong' must not take settings: `-o FILE` has no way to pass them; its signature is wide\("
    with pytest.raises(PluginError, match=wrong):

        @report("wrong")
        def wide(report: RunReport, rows: Any, *, width: int = 80) -> str:
            return f"{report}{rows}{width}"


def test_a_store_class_saves_results() -> None:
    with pytest.raises(
        PluginError, match=r"store 'wrong': class Wrong has neither save_result\(result\) nor share_run"
    ):

        @store("wrong")
        class Wrong:
            pass

    with pytest.raises(
        PluginError, match=r"must take no argument but settings after `\*`; its signature is wrong\(folder"
    ):

        @store("wrong")
        def wrong(folder: str) -> object:
            return folder

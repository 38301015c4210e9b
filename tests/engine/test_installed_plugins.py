"""Plug-ins of installed packages, found by their entry points: packages are real, made in a folder on the path."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentv import (
    EvalCase,
    EvaluationContext,
    EvaluationInput,
    EvaluationRunConfig,
    EvaluatorConfig,
    PluginError,
    evaluate,
    evaluator,
    load_suite,
    run_evaluation_sync,
)
from agentv.engine.plugins.loading import load_specs
from agentv.loading.models.settings import read_settings
from agentv.types.errors import ConfigError, EvalFileError

Install = Callable[..., None]

SUITE = """
evalcases:
  - id: a
    expected_outcome: loud
    input_messages: [{role: user, content: hi}]
    evaluators: [{name: s, type: %s}]
"""
SHORT = '''
from agentv import evaluator

@evaluator("%s", aliases=("%s_alias",))
def judge(context, *, limit: int = 3):
    """The answer is short."""
    return len(context.candidate) <= limit
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return what makes an installed package: a module, and the entry points that it brings."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(str(site))

    def make(package: str, code: str, *, group: str = "evaluators", version: str = "1.0", **entries: str) -> None:
        info = site / f"{package}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        lines = [f"{name} = {package}:{attribute}" for name, attribute in entries.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[agentv.{group}]", *lines]))
        (site / f"{package}.py").write_text(code)
        # The finder remembers a folder by the second in which it changed.
        monkeypatch.syspath_prepend(str(site))

    return make


def judged_by(type_: str, **settings: str) -> float | None:
    config = EvaluatorConfig("s", type_, settings)
    (row,) = evaluate([EvalCase("a", "hi")], task=lambda _: "hi", evaluators=[config]).results
    return row.score


def test_an_installed_evaluator_is_a_type_like_any_other(install: Install) -> None:
    install("brevity", SHORT % ("brief", "brief"), brief="judge")
    assert judged_by("brief") == 1.0
    assert judged_by("brief_alias") == 1.0
    specs = load_specs()
    specs.evaluators.load_all()
    assert specs.evaluators.packages["brief"] == "brevity 1.0"


def test_package_is_not_imported_until_its_plugin_is_used(install: Install) -> None:
    install("lazy_one", SHORT % ("lazy", "lazy"), lazy="judge")
    assert judged_by("contains", value="hi") == 1.0
    assert "lazy_one" not in sys.modules
    assert judged_by("lazy") == 1.0
    assert "lazy_one" in sys.modules


def test_a_broken_package_does_not_touch_a_run_that_does_without_it(install: Install, tmp_path: Path) -> None:
    install("cracked", "raise RuntimeError('no licence')", crack="judge")
    assert judged_by("contains", value="hi") == 1.0
    (tmp_path / "suite.yaml").write_text(SUITE % "crack")
    with pytest.raises(EvalFileError) as refused:
        load_suite(tmp_path / "suite.yaml")
    (problem,) = refused.value.problems
    assert problem.line == 6
    assert problem.message.startswith("cannot load evaluator 'crack' of cracked 1.0: RuntimeError: no licence (")
    with pytest.raises(ConfigError, match=r"unknown evaluator type 'contians'.*Did you mean 'contains'"):
        judged_by("contians")


def test_two_packages_that_bring_one_name_are_both_named_to_who_asks_for_it(install: Install) -> None:
    install("left_one", SHORT % ("same", "l"), same="judge")
    install("right_one", SHORT % ("same", "r"), version="2.1", same="judge")
    with pytest.raises(PluginError, match="'same' is provided by ") as refused:
        load_specs().evaluators.get("same")
    assert "left_one 1.0" in str(refused.value)
    assert "right_one 2.1" in str(refused.value)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def judge(context): return 1", "evaluator 'odd' of {}: {}:judge is not marked with @evaluator(...)"),
        (SHORT % ("other", "o"), "evaluator 'odd' of {} has the name 'other'; give its entry point the same name"),
        (
            "judge = 1; import nowhere",
            "cannot load evaluator 'odd' of {}: ModuleNotFoundError: No module named 'nowhere'",
        ),
        ("", "cannot load evaluator 'odd' of {}: AttributeError: "),
    ],
)
def test_an_entry_point_that_is_no_plugin_says_whose_it_is(install: Install, code: str, message: str) -> None:
    package = f"odd_{abs(hash(code))}"
    install(package, code, odd="judge")
    expected = message.format(f"{package} 1.0", package)
    with pytest.raises(PluginError, match=re.escape(expected)):
        load_specs().evaluators.get("odd")


def test_a_plugin_of_the_project_goes_before_an_installed_one(install: Install, tmp_path: Path) -> None:
    install("far_away", SHORT % ("mine", "m"), mine="judge")
    (tmp_path / "near.py").write_text("from agentv import evaluator\n@evaluator('mine')\ndef f(context): return 0.25\n")
    specs = load_specs(["near.py"], base_dir=str(tmp_path))
    assert specs.evaluators.get("mine").summary == ""
    specs.evaluators.load_all()
    assert str(specs.evaluators.broken["mine"]) == (
        "evaluator type 'mine' of far_away 1.0 is hidden by another plug-in of that name"
    )
    assert specs.evaluators.get("mine").summary == ""


def test_given_function_scores_despite_a_plugin_of_its_name(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "near.py").write_text(
        "from agentv import evaluator\n@evaluator('twice')\ndef f(context): return 0.25\n"
    )
    (tmp_path / ".agentv.yaml").write_text("plugins: [near.py]")
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: mock, response: hi}]")
    (tmp_path / "suite.yaml").write_text(SUITE.replace("    evaluators: [{name: s, type: %s}]\n", ""))

    @evaluator("twice")
    def twice(_context: EvaluationContext) -> float:
        return 0.5

    (row,) = evaluate(tmp_path / "suite.yaml", evaluators=[twice], folder=tmp_path / ".agentv").results
    assert row.score == 0.5


def test_a_built_in_name_stays_ours(install: Install) -> None:
    install("thief", SHORT % ("contains", "t"), contains="judge")
    specs = load_specs()
    specs.evaluators.load_all()
    assert "thief 1.0" in str(specs.evaluators.broken["contains"])
    assert specs.evaluators.get("contains").factory == "agentv.evaluators.rules.text:make_contains"


def test_packages_are_searched_for_names_that_are_not_built_in(install: Install) -> None:
    install("brevity", SHORT % ("brief", "brief"), brief="judge")
    specs = load_specs()
    assert specs.evaluators.get("contains").name == "contains"
    assert specs.evaluators.announced == {}
    for registry in (specs.evaluators, specs.evaluators.copy()):
        assert registry.get("brief").name == "brief"


def test_a_copy_of_the_registry_knows_what_is_announced(install: Install) -> None:
    install("copied", SHORT % ("twin", "t2"), twin="judge")
    assert load_specs().evaluators.copy().get("twin").name == "twin"


REPORT = '''
from agentv import report

@report("{name}")
def lines(report, rows):
    """One line for each row."""
    return {text}
'''


def agentv(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(cwd / "site")}
    command = [sys.executable, "-m", "agentv", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".agentv").mkdir()
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "suite.yaml").write_text(SUITE.replace("type: %s", "type: contains, value: hi"))
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: mock, response: hi}]")
    return tmp_path


def test_a_report_of_a_package_writes_the_files_that_end_in_its_name(install: Install, project: Path) -> None:
    text = r"report.verdict.sentence + ''.join(f'\n{row.eval_id} {row.score}' for row in rows)"
    install("lister", REPORT.format(name="list.txt", text=text), group="reports", **{"list.txt": "lines"})
    done = agentv("run", "-o", "week.list.txt", cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project / "week.list.txt").read_text() == "PASS: 1 of 1 judged result passed (100 %).\na 1.0"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0", "report 'bad' failed: ZeroDivisionError: division by zero ("),
        ("42", "report 'bad' returned int, not a string"),
    ],
)
def test_a_report_that_fails_leaves_no_file_and_says_so(install: Install, project: Path, text: str, said: str) -> None:
    install("badly", REPORT.format(name="bad", text=text), group="reports", bad="lines")
    done = agentv("run", "-o", "x.bad", "-o", "x.jsonl", cwd=project)
    assert done.returncode == 3
    assert f"-o x.bad: cannot be written: {said}" in done.stderr
    assert not (project / "x.bad").exists()
    assert (project / "x.jsonl").read_text().count("\n") == 1


def test_unknown_file_suffix_is_rejected_with_the_known_ones(install: Install, project: Path) -> None:
    install("lister2", REPORT.format(name="list.txt", text="''"), group="reports", **{"list.txt": "lines"})
    done = agentv("run", "-o", "x.txt", cwd=project)
    assert done.returncode == 4
    assert "x.txt: unknown format; " in done.stderr
    assert " or .list.txt, or be -" in done.stderr


STORES = """
from pathlib import Path
from dataclasses import dataclass
from agentv import store

@store("kept")
@dataclass
class Kept:
    folder: str

    def save_result(self, result):
        pass

@store("made")
def made(*, folder: str = "here"):
    return Kept(folder)

@store("wrong")
def wrong():
    return 1
"""


def test_a_store_of_a_package_is_made_by_name_with_its_settings(install: Install) -> None:
    install("shelves", STORES, group="stores", kept="Kept", made="made", wrong="wrong")
    stores = load_specs().stores
    for name, folder in (("kept", "there"), ("made", "there")):
        spec = stores.get(name)
        store = spec.load_factory()(read_settings(spec, {"folder": folder}, where="storage"), ".")
        assert store.folder == "there"
    wrong = stores.get("wrong")
    with pytest.raises(PluginError, match=r"store 'wrong' returned int, which has no save_result\(result\)"):
        wrong.load_factory()(read_settings(wrong, {}, where="storage"), ".")


def test_judgements_are_kept_by_the_store_of_a_package(install: Install, tmp_path: Path) -> None:
    code = STORES.replace("        pass", "        Path(self.folder).write_text(str(result.overall_score))")
    install("shelves2", code, group="stores", kept="Kept", wrong="wrong")
    contains = {"type": "contains", "value": "hi"}
    kept = {"type": "kept", "folder": str(tmp_path / "scores")}
    judged = run_evaluation_sync(
        EvaluationInput(prompt="Hi?", response="hi"), EvaluationRunConfig([contains], storage=kept)
    )
    assert (tmp_path / "scores").read_text() == "1.0"
    assert judged.evaluation_config_snapshot["storageProviderType"] == "kept"
    for storage, message in (
        ({"type": "kept", "foldr": "x"}, "foldr"),
        ({"type": "wrong"}, "store 'wrong' returned int"),
        ({"type": "lost"}, "unknown store 'lost'; known: json_file, kept, postgres, wrong"),
    ):
        with pytest.raises(ConfigError, match=message):
            run_evaluation_sync(
                EvaluationInput(prompt="Hi?", response="hi"), EvaluationRunConfig([contains], storage=storage)
            )


def test_plugins_command_lists_sorts_packages_and_problems(install: Install, project: Path) -> None:
    install("brevity3", SHORT % ("brief3", "b3"), brief3="judge")
    install("lister3", REPORT.format(name="list3", text="''"), group="reports", list3="lines")
    install("shelves3", STORES, group="stores", kept="Kept")
    install("cracked3", "raise RuntimeError('no licence')", crack3="judge")
    done = agentv("plugins", cwd=project)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^  brief3, b3_alias +The answer is short  \[brevity3 1\.0\]$", done.stdout, re.MULTILINE)
    assert re.search(r"^  list3 +One line for each row  \[lister3 1\.0\]$", done.stdout, re.MULTILINE)
    assert re.search(r"^stores\n(?:  .*\n)*  kept .*\[shelves3 1\.0\]$", done.stdout, re.MULTILINE)
    assert "not usable: cannot load evaluator 'crack3' of cracked3 1.0: RuntimeError: no licence" in done.stdout

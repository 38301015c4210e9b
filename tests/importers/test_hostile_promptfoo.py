"""promptfoo configurations made to break the converter: each is refused with its place, or converted at once."""

import json
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentv.importers.located import Converted
from agentv.importers.promptfoo.configurations import convert_promptfoo
from agentv.importers.promptfoo.templates import variables_of
from agentv.types.errors import ConfigError

BASE: dict[str, Any] = {"prompts": ["Question {{ a }}"], "providers": ["echo"]}


def convert(folder: Path, config: dict[str, Any]) -> Converted:
    (folder / "promptfooconfig.yaml").write_text(json.dumps({**BASE, **config}))
    return convert_promptfoo(folder / "promptfooconfig.yaml", folder / "suite.yaml")


@contextmanager
def cpu_seconds(most: float) -> Iterator[None]:
    before = resource.getrusage(resource.RUSAGE_SELF)
    yield
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < most


@pytest.mark.parametrize("shape", ["{tests}", "file://{tests}", "{prompts}"])
@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("/etc/*.txt", "the pattern '/etc/[*].txt' must not be absolute; name files of the project, relative to"),
        ("../../**/*.txt", "leads outside of .*; name files of the project, relative to"),
        ("a/*/../../../**/*.txt", "has '..' after a wildcard; name files of the project"),
    ],
)
def test_a_pattern_outside_of_the_project_is_an_error(
    shape: str, pattern: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project" / "deep"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    config: dict[str, Any] = {"prompts": [f"file://{pattern}"]}
    if shape != "{prompts}":
        config = {"tests": shape.format(tests=pattern)}
    with pytest.raises(ConfigError, match=rf"promptfooconfig.yaml:1:\d+  .*{message}"):
        convert(folder, config)


def test_a_pattern_inside_of_the_project_finds_its_files(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    folder = tmp_path / "evals"
    for name in ("a", "b/c"):
        (folder / name).mkdir(parents=True)
        (folder / name / "tests.yaml").write_text('- {vars: {a: "x"}}')
    assert convert(folder, {"tests": "../evals/**/tests.yaml"}).cases == 2
    assert convert(folder, {"tests": "?/tests.yaml"}).cases == 1


@pytest.mark.parametrize(
    "text",
    ["{{" * 20_000, "{{ a" * 20_000, "{%" * 20_000, "{#" * 20_000, "{% raw %}" * 5_000,
     "{% endraw %}" + "{% raw %}" * 5_000,
     "{{" + " " * 40_000, "{{ a" + " " * 40_000 + "x", "{{ a | b" + " " * 40_000 + "x }}", "{%" + " " * 40_000,
     "[" * 100_000],
    ids=range(11),
)  # fmt: skip
def test_a_text_takes_time_linear_in_its_length(text: str, tmp_path: Path) -> None:
    with cpu_seconds(3):
        convert(
            tmp_path,
            {"prompts": [text], "tests": [{"vars": {"a": text}, "assert": [{"type": "equals", "value": text}]}]},
        )


def test_variables_of_texts_with_raw_parts_and_comments() -> None:
    text = "{{ a }} {# {{ b }} #} {% raw %}{{ c }}{% endraw %} {% if d %}{{- e.f -}}{% endif %} {{{ g }} {{"
    assert variables_of(text) == ("a", "e")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"tests": [{"vars": {"a": list(range(101)), "b": list(range(100))}}]}, "more than 10,000 cases"),
        ({"tests": [{"vars": {name: list(range(1000)) for name in "abcdefgh"}}]}, "more than 10,000 cases"),
        ({"scenarios": [{"config": [{}] * 3_000, "tests": [{"vars": {"a": 1}}] * 3_000}]}, "more than 10,000 tests"),
    ],
)
def test_combinations_have_a_limit_and_leave_a_skipped_case(
    config: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with cpu_seconds(5):
        made = convert(tmp_path, config)
    cases: Any = made.suite["evalcases"]
    assert [message in case["skip"] for case in cases] == [True]
    assert any(message in loss.message and loss.severity == "error" for loss in made.losses)


def test_a_configuration_with_too_many_tests_is_refused(tmp_path: Path) -> None:
    tests = [{"vars": {name: list(range(10)) for name in "abcd"}}] * 6
    with pytest.raises(ConfigError, match=r"its tests expand to more than 50,000 cases; move the variables to a CSV"):
        convert(tmp_path, {"tests": tests})


def test_an_empty_list_of_values_makes_no_case_and_is_noted(tmp_path: Path) -> None:
    made = convert(tmp_path, {"tests": [{"vars": {"a": []}}, {"vars": {"a": "x"}}]})
    assert made.cases == 1
    assert made.losses[0].message == "its list of values `a` is empty, which makes no case"


@pytest.mark.parametrize(
    "config",
    [
        lambda name: {"tests": [{"vars": {"a": name}}]},
        lambda name: {"tests": [{"vars": name}]},
        lambda name: {"defaultTest": name},
        lambda name: {"scenarios": [name]},
    ],
)
def test_a_name_that_is_too_long_is_an_error(config: Callable[[str], dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"does not exist|File name too long") as raised:
        convert(tmp_path, config(f"file://{'a' * 5_000}.yaml"))
    assert type(raised.value).__name__ in ("ConfigError", "EvalFileError")

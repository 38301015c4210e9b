"""Every option of a run is the same however it is given: on the command line, in Python, in `.agentv.yaml`, stored."""

import json
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from agentv import evaluate
from agentv.cli.running.run import command, given_options
from agentv.engine.planning.inputs import project_options as options_of_project
from agentv.loading.project import ProjectModel
from agentv.types.cases import EvalCase
from agentv.types.errors import ConfigError, EvalFileError
from agentv.types.run_options import (
    KEYWORD_ALIASES,
    Flag,
    RunKeywords,
    RunOptions,
    flags_of,
    make_options,
    project_options,
    run_options,
    type_of,
)
from agentv.types.structs import StructField

WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=6)
ALL_OPTIONS = pytest.mark.parametrize("option", run_options(), ids=lambda option: option.name)
PROJECT_OPTIONS = pytest.mark.parametrize("option", project_options(), ids=lambda option: option.name)
NEEDS_RAY = {"ray_address": {"backend": "ray"}, "shared_path": {"backend": "ray"}}


def values_of(option: StructField) -> st.SearchStrategy[Any]:
    """Return a strategy for valid values of an option."""
    value = type_of(option)
    if value.words:
        return st.sampled_from(value.words)
    if option.name == "variables":
        return st.dictionaries(WORDS, WORDS, min_size=1, max_size=2).map(
            lambda given: tuple(f"{name}={text}" for name, text in given.items())
        )
    if option.extra["flag"].kind == "folder":
        return st.just((str(Path.cwd()),))
    if value.kind is tuple:
        return st.lists(WORDS.filter(lambda word: word != "none"), min_size=1, max_size=2).map(tuple)
    if option.extra["flag"].kind == "span":
        return st.integers(1, 10**6).map(float)
    if value.kind is int:
        return st.integers(-1000 if value.bounds.ge is None else int(value.bounds.ge), 10**6)
    if value.kind is float:
        return st.floats(0.001, 1e6)
    return st.booleans() if value.kind is bool else WORDS


def arguments(option: StructField, value: Any) -> Sequence[str]:
    """Return an option with a value as on the command line."""
    flag, kind = flags_of(option)[0], option.extra["flag"].kind
    if value is True or value is False:
        return [flag] if value else []
    texts = (
        value
        if isinstance(value, tuple)
        else (f"{value:.0f}s" if kind == "span" and isinstance(value, float) else str(value),)
    )
    return [f"{flag}={text}" if flag.startswith("--") else f"{flag}{text}" for text in texts]


def from_command_line(*words: str) -> RunOptions:
    with command.make_context("run", list(words)) as context:
        return make_options(given_options(context))


def from_project_file(folder: Path, keys: Mapping[str, object]) -> RunOptions:
    (folder / ".git").mkdir(exist_ok=True)
    (folder / ".agentv.yaml").write_text(json.dumps(keys))
    return make_options({}, options_of_project([folder], {}))


anything = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@ALL_OPTIONS
@anything
@given(data=st.data())
def test_an_option_is_the_same_however_it_is_given(option: StructField, tmp_path: Path, data: st.DataObject) -> None:
    value = data.draw(values_of(option))
    others = NEEDS_RAY.get(option.name, {})
    in_python = make_options({**others, option.name: value})
    assert getattr(in_python, option.name) == value
    needed = [f"--{name}={other}" for name, other in others.items()]
    assert from_command_line(*needed, *arguments(option, value)) == in_python
    assert make_options(json.loads(json.dumps(in_python.to_json()))) == in_python
    if option in project_options():
        assert from_project_file(tmp_path, {option.name: value}) == in_python


def test_the_maximum_age_of_cached_answers_has_a_unit() -> None:
    assert from_command_line("--cache-max-age=12h") == make_options({"cache_max_age_s": 43200.0})


def test_a_variable_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="the variable 'city' is given twice"):
        make_options({"variables": ("city=Rome", "land=Italy", "city=Oslo")})


def test_a_keyword_of_other_tools_sets_ours() -> None:
    assert make_options({"max_concurrency": 3}) == RunOptions(workers=3)
    with pytest.raises(ConfigError, match="workers must be"):
        make_options({"max_concurrency": 0})
    with pytest.raises(ConfigError, match="max_concurrency and workers mean the same; give one"):
        make_options({"max_concurrency": 3, "workers": 3})


def test_evaluate_takes_max_concurrency() -> None:
    report = evaluate([EvalCase("a", "hi")], task=lambda _: "ok", evaluators=[{"type": "is_json"}], max_concurrency=2)
    assert len(report.results) == 1


@PROJECT_OPTIONS
@anything
@given(data=st.data())
def test_a_given_option_replaces_that_of_the_project(option: StructField, tmp_path: Path, data: st.DataObject) -> None:
    of_project, chosen = data.draw(values_of(option)), data.draw(values_of(option))
    from_project_file(tmp_path, {option.name: of_project})
    given = {option.name: chosen}
    assert make_options(given, options_of_project([tmp_path], given)) == make_options(given)


def wrong_values(option: StructField) -> Sequence[object]:
    """Return values that an option refuses in Python."""
    value = type_of(option)
    found: list[object] = [{"a": 1}, *([] if value.may_be_none or value.kind is bool else [None])]
    if value.words:
        return [*found, "no such word"]
    if value.bounds.ge is not None:
        found.append(int(value.bounds.ge) - 1)
    if value.bounds.gt is not None:
        found += [value.bounds.gt, float("nan")]
    if value.bounds.min_length:
        found.append("")
    if value.kind is not bool:
        found.append(True)
    return [*found, *(["text"] if value.kind in (int, float) else [7.5])]


@ALL_OPTIONS
def test_a_wrong_value_names_the_keyword(option: StructField) -> None:
    for value in wrong_values(option):
        if option.name == "variables" and isinstance(value, dict):
            continue
        with pytest.raises(ConfigError, match=rf"^{option.name} must "):
            make_options({option.name: value})
    wrong: dict[str, Any] = {option.name: wrong_values(option)[-1]}
    with pytest.raises(ConfigError, match=rf"^{option.name} must "):
        evaluate([EvalCase("a", "b")], task=lambda _request: "", **wrong)


@ALL_OPTIONS
def test_a_wrong_value_names_the_flag_or_the_keyword(option: StructField) -> None:
    for value in wrong_values(option):
        if isinstance(value, bool | dict | None) or (type_of(option).kind in (str, tuple) and value == 7.5):
            continue  # there is no such value on a command line
        with pytest.raises((click.BadParameter, ConfigError)) as caught:
            from_command_line(*arguments(option, value if type_of(option).kind is not tuple else (value,)))
        message = caught.value.format_message() if isinstance(caught.value, click.BadParameter) else str(caught.value)
        assert flags_of(option)[0] in message or option.name in message


@PROJECT_OPTIONS
def test_a_wrong_value_names_the_line_and_the_key(option: StructField, tmp_path: Path) -> None:
    for value in wrong_values(option):
        if value is None:
            continue  # in a file, null is no value
        with pytest.raises(EvalFileError, match=rf"\.agentv\.yaml:1:\d+ .*\$\.{option.name}"):
            from_project_file(tmp_path, {option.name: value})


def test_two_projects_of_a_run_must_not_contradict_each_other(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder, text in zip(folders, ("max_errors: 1", "max_errors: 2", "cache: read"), strict=True):
        folder.mkdir()
        (folder / ".agentv.yaml").write_text(text)
    assert options_of_project([folders[0], folders[2]], {}) == {"max_errors": 1, "cache": "read"}
    with pytest.raises(ConfigError, match=r"a.\.agentv\.yaml sets `max_errors` to 1, but .*b.\.agentv\.yaml to 2; .*"):
        options_of_project(folders, {})
    assert options_of_project(folders, {"max_errors"}) == {"cache": "read"}


def test_keywords_have_the_names_and_types_of_the_options() -> None:
    keywords = get_type_hints(RunKeywords)
    for other, name in KEYWORD_ALIASES.items():
        assert keywords.pop(other) == keywords[name]
    assert list(keywords) == [option.name for option in run_options()]
    for option in run_options():
        assert plain(option.type) <= members(keywords[option.name]), option.name


def members(hint: Any) -> set[Any]:
    """Return the choices of a union; a list of strings is a tuple of them."""
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return {tuple[str, ...] if get_origin(choice) is Sequence else choice for choice in choices}


def plain(hint: Any) -> set[Any]:
    """Return the choices of a type without their bounds."""
    return {get_args(choice)[0] if get_origin(choice) is Annotated else choice for choice in members(hint)}


def test_every_option_is_described_and_named_once() -> None:
    flags = [flag for option in run_options() for flag in flags_of(option)]
    assert len(set(flags)) == len(flags)
    for option in run_options():
        assert option.description
        assert option.description.endswith((".", ")."))
        assert isinstance(option.extra["flag"], Flag)
        value = option.default
        assert type_of(option).problem(value) is None
    assert RunOptions().to_json() == {}
    assert asdict(RunOptions()) == {option.name: option.default for option in run_options()}


def test_options_of_a_project_are_keys_of_its_file() -> None:
    names = {option.name for option in project_options()}
    assert names >= {"cache", "max_errors", "judge_failures"}
    assert names < set(ProjectModel.names().canonical)

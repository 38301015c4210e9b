"""Text that a CI runner reads line by line contains no command to it, however it was written."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentv.reports.text.printable import CommandGuard, escape_commands, runner_parses_log

COMMAND = re.compile(r"^\s*::|##\w*\[")


def commands(log: str) -> list[str]:
    return [line for line in re.split(r"\r\n|\r|\n", log) if COMMAND.search(line)]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("::add-mask::x", ".::add-mask::x"),
        ("  ::set-env name=A::b", ".  ::set-env name=A::b"),
        ("a ##[group]b", "a ## [group]b"),
        ("##vso[task.setvariable variable=A]b", "## vso[task.setvariable variable=A]b"),
        ("##teamcity[buildStop]", "## teamcity[buildStop]"),
        ("## a heading [1]", "## a heading [1]"),
        ("std::vector", "std::vector"),
    ],
)
def test_a_command_is_broken_and_other_text_stays(line: str, shown: str) -> None:
    assert escape_commands(line) == shown
    assert not commands(CommandGuard().escape(line))


@pytest.mark.parametrize(
    ("env", "expected"),
    [({}, False), ({"GITHUB_ACTIONS": "true"}, True), ({"TF_BUILD": "True"}, True), ({"TEAMCITY_VERSION": "1"}, True)],
)
def test_a_runner_is_recognised_by_its_variables(env: dict[str, str], *, expected: bool) -> None:
    assert runner_parses_log(env) is expected


@given(st.lists(st.text(alphabet=":#[]vso \t\r\na", max_size=8), max_size=12))
@example(["::", "\r::"])
@example([":", ":\n::add"])
def test_no_split_of_a_text_makes_a_command(parts: list[str]) -> None:
    guard = CommandGuard()
    assert commands("".join(map(guard.escape, parts))) == []


@given(st.lists(st.text(alphabet="ab \n.", max_size=8)))
def test_text_without_commands_is_unchanged(parts: list[str]) -> None:
    guard = CommandGuard()
    assert "".join(map(guard.escape, parts)) == "".join(parts)

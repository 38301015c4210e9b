"""`.env` files and `${{ VAR }}`."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.loading.files.dotenv import load_env, parse_env
from agentv.templating.environment import fill_variables, has_reference, is_reference, variables_in
from agentv.types.errors import EvalFileError, TemplateError

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


def parsed(text: str) -> dict[str, str]:
    values, problems = parse_env(text, ".env")
    assert problems == ()
    return values


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("A = b c ", "b c"),
        ("export A=b", "b"),
        ("A=", ""),
        ("A=b # comment", "b"),
        ("A=b#c", "b#c"),
        ("A=# comment", ""),
        ("A='b # c'", "b # c"),
        ("A='b' # c", "b"),
        ("A='$B \\n'", "$B \\n"),
        ('A="b\\n\\"c\\" \\\\ \\t"', 'b\n"c" \\ \t'),
        ('A="two\nlines"', "two\nlines"),
        ("A='two\nlines'", "two\nlines"),
        ("A=b=c", "b=c"),
        ('A=it"s', 'it"s'),
        ("A=${B}", "${B}"),
    ],
)
def test_a_line_of_an_env_file(line: str, value: str) -> None:
    assert parsed(f"{line}\n") == {"A": value}
    assert parsed(line) == {"A": value}


def test_comments_and_blank_lines_set_nothing_and_the_last_value_holds() -> None:
    assert parsed("# x\n\n  # y\nA=1\r\nB=2\nA=3\n") == {"A": "3", "B": "2"}


def test_lines_that_set_nothing_are_reported_with_their_position() -> None:
    _, problems = parse_env("A=1\nnonsense\nB='open\n1C=x\nD=4\n", ".env")
    assert [problem.render() for problem in problems] == [
        ".env:2:1  $  this line sets no variable; write NAME=value, or NAME='value' with both quotes",
        ".env:3:1  $  this line sets no variable; write NAME=value, or NAME='value' with both quotes",
        ".env:4:1  $  this line sets no variable; write NAME=value, or NAME='value' with both quotes",
    ]


@given(st.text())
def test_any_text_is_read_or_reported(text: str) -> None:
    _, problems = parse_env(text, ".env")
    assert all(problem.line > 0 for problem in problems)


@given(st.dictionaries(names, st.text(st.characters(codec="utf-8", exclude_characters="'\r"))))
def test_single_quotes_keep_any_value(values: dict[str, str]) -> None:
    assert parsed("".join(f"{name}='{value}'\n" for name, value in values.items())) == values


def test_the_first_file_upward_is_read_and_overrides_nothing(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / ".env").write_text("OUTER=1\n")
    (tmp_path / "a" / ".env").write_text("INNER=2\nHOME=/elsewhere\n")
    assert load_env(inner, {"HOME": "/home"}) == {"INNER": "2", "HOME": "/home"}


def test_a_broken_env_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("nonsense\n")
    with pytest.raises(EvalFileError, match="this line sets no variable"):
        load_env(tmp_path, {})


def test_references() -> None:
    assert variables_in("a ${{ A }} b ${{B_2}} ${{ A }}") == ("A", "B_2", "A")
    assert is_reference("${{ A }}")
    assert not is_reference("${{ A }}!")
    assert not has_reference("$A ${A} {{ A }}")
    assert fill_variables("${{ A }}-${{A}}", {"A": "${{ A }}"}) == "${{ A }}-${{ A }}"


@pytest.mark.parametrize("text", ["${{", "${{ }}", "${{ A B }}", "${{ 1A }}", "${{ A-B }}", "${{ A }", "${{ A }} ${{"])
def test_a_reference_that_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(TemplateError, match="is not a valid reference"):
        variables_in(text)


@given(st.dictionaries(names, st.text(), min_size=1), st.data())
def test_filling_puts_every_value_in_once(values: dict[str, str], data: st.DataObject) -> None:
    used = data.draw(st.lists(st.sampled_from(sorted(values)), max_size=5))
    template = "|".join(f"${{{{ {name} }}}}" for name in used)
    assert fill_variables(template, values) == "|".join(values[name] for name in used)

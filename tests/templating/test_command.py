import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.templating.command import (
    MAX_VALUE_BYTES,
    PLACEHOLDERS,
    CommandTemplate,
    parse_command,
    parse_files_format,
)
from agentv.types.errors import TemplateError

HOSTILE = (
    "'",
    '"',
    "`",
    "$(",
    ")",
    "${IFS}",
    "\\",
    "\n",
    ";",
    "&&",
    "|",
    ">",
    "*",
    "~",
    "#",
    "!",
    "--",
    " ",
    "{PROMPT}",
)
values = st.one_of(
    st.lists(st.sampled_from(HOSTILE), max_size=8).map("".join),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    st.sampled_from(["'; touch owned; '", '"; touch owned; "', "$(touch owned)", "`touch owned`", "\n touch owned\n"]),
)
QUOTED = ("{PROMPT}", "pre{PROMPT}post", "'{PROMPT}'", '"{PROMPT}"', "'a '{PROMPT}\" b\"", '--x="$X{PROMPT}\'"')
NESTED = ('"$(printf %s. {PROMPT})"', '"$(printf %s. "{PROMPT}")"', "\"$(printf %s. '{PROMPT}')\"")
EXPECTED = {
    "{PROMPT}": "{}",
    "pre{PROMPT}post": "pre{}post",
    "'{PROMPT}'": "{}",
    '"{PROMPT}"': "{}",
    "'a '{PROMPT}\" b\"": "a {} b",
    '--x="$X{PROMPT}\'"': "--x={}'",
    **dict.fromkeys(NESTED, "{}."),
}


def arguments_seen(template: str, value: str, files: Sequence[str] = (), cwd: Path | None = None) -> list[str]:
    """Run `printf` on the template filled with a value, and return its arguments."""
    filled = parse_command(f"printf '%s\\0' {template}").fill(dict.fromkeys(PLACEHOLDERS, value), files)
    result = subprocess.run(filled.argv, env={**os.environ, **filled.env}, capture_output=True, check=True, cwd=cwd)
    return result.stdout.decode().split("\0")[:-1]


@given(st.lists(st.sampled_from(QUOTED[:5]), min_size=1, max_size=5), values)
def test_without_a_shell_every_value_arrives_byte_for_byte(words: list[str], value: str) -> None:
    assert arguments_seen(" ".join(words), value) == [EXPECTED[word].replace("{}", value) for word in words]


@given(st.lists(st.sampled_from(QUOTED + NESTED), min_size=1, max_size=5), values)
def test_in_a_shell_every_value_arrives_byte_for_byte(words: list[str], value: str) -> None:
    seen = arguments_seen(f"{' '.join(words)} | cat", value)

    assert seen == [EXPECTED[word].replace("{}", value) for word in words]


@given(values)
def test_no_value_is_ever_program_text(value: str) -> None:
    template = parse_command("""a '{PROMPT}' "{PROMPT}" {PROMPT} $(b {PROMPT}) | c""")

    assert template.fill({"PROMPT": value}).argv == template.fill({"PROMPT": "other"}).argv


def test_the_naive_shell_escape_runs_a_value_that_stands_in_quotes(tmp_path: Path) -> None:
    value = "$(touch owned)"
    naive = "printf '%s' '{PROMPT}'".replace("{PROMPT}", shlex.quote(value))

    subprocess.run(["/bin/sh", "-c", naive], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "owned").exists()

    (tmp_path / "owned").unlink()
    assert arguments_seen("'{PROMPT}' | cat", value, cwd=tmp_path) == [value]
    assert not (tmp_path / "owned").exists()


@given(st.lists(values.filter(bool), max_size=4))
@pytest.mark.parametrize("end", ["", " | cat"])
def test_files_alone_become_as_many_words_as_there_are(end: str, files: list[str]) -> None:
    assert arguments_seen(f"first {{FILES}} last{end}", "x", files) == ["first", *files, "last"]


@pytest.mark.parametrize("end", ["", " | cat"])
@pytest.mark.parametrize(("template", "expected"), [("--f={FILES}", "--f=a b c"), ('"{FILES}"', "a b c")])
def test_files_inside_a_word_are_joined_by_blanks(template: str, expected: str, end: str) -> None:
    assert arguments_seen(template + end, "x", ["a b", "c"]) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "agent --prompt {PROMPT}",
        "agent 'a | b' \"c; d\"",
        r"agent a\ b \; \$x",
        "awk '{print $1}' {FILES}",
        "agent {lower}",
    ],
)
def test_a_template_without_a_shell_operator_needs_no_shell(text: str) -> None:
    assert parse_command(text).words is not None


@pytest.mark.parametrize(
    "text",
    [
        "a | b",
        "a & b",
        "a; b",
        "a < b",
        "a > b",
        "(a)",
        "a $HOME",
        'a "$HOME"',
        "a `b`",
        "a *",
        "a ?",
        "a\nb",
        "X=1 a",
        "~/a",
    ],
)
def test_a_template_with_a_shell_operator_runs_in_sh(text: str) -> None:
    template = parse_command(text)

    assert template.words is None
    assert template.fill({}).argv == ("/bin/sh", "-c", text, "sh")


def words(text: str) -> list[str]:
    return list(parse_command(text).fill(dict.fromkeys(PLACEHOLDERS, "V")).argv)


plain_texts = st.text(st.sampled_from("ab{}='\"\\ \t-_/.,:%@[]"), min_size=1, max_size=20)


@given(plain_texts)
def test_words_are_split_as_the_standard_library_does(text: str) -> None:
    try:
        expected = shlex.split(text, comments=False)
    except ValueError:
        expected = []
    if not expected or "\\" in text[-1:]:
        return
    template = _parsed(text)
    if template is not None and template.words is not None:
        assert list(template.fill({}).argv) == expected


def _parsed(text: str) -> CommandTemplate | None:
    try:
        return parse_command(text)
    except TemplateError:
        return None


def test_what_looks_like_a_placeholder_to_us_alone_is_left_alone() -> None:
    assert words("agent {prompt} {} {a:1} '{print}'") == ["agent", "{prompt}", "{}", "{a:1}", "{print}"]
    assert words("a ${PROMPT} | b")[2] == "a ${PROMPT} | b"
    assert words(r"agent \{PROMPT} {PROMPT}") == ["agent", "{PROMPT}", "V"]


def test_a_comment_of_a_script_may_hold_anything() -> None:
    template = parse_command("a {PROMPT} # it's (a comment\nb")

    assert template.fill({"PROMPT": "x"}).argv[2] == 'a "${AGENTV_PROMPT}" # it\'s (a comment\nb'


def test_the_attempt_may_be_counted_with() -> None:
    assert arguments_seen("$(({ATTEMPT} + 1))", "4") == ["5"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the command is empty"),
        (" \n", "the command is empty"),
        (
            "a {NAME} {PROMPT} {OTHER}",
            "the command has the unsupported placeholder {NAME}, {OTHER}; supported: {",
        ),
        ("awk '{PRINT}'", "the command has the unsupported placeholder {PRINT}"),
        ("a 'b", "the command has an unclosed quote: a 'b"),
        ('a "b', "the command has an unclosed quote"),
        ("a $(b", "the command has an unclosed parenthesis"),
        ("a `b", "the command has an unclosed back quote"),
        ("a ${b", "the command has an unclosed brace"),
        ("a `b {PROMPT}`", "the command has {PROMPT} inside back quotes or ${…}; use $( ) instead"),
        ("a ${X:-{PROMPT}}", "the command has {PROMPT} inside back quotes or ${…}; use $( ) instead"),
        ("a $((1 + {PROMPT}))", "the command has {PROMPT} in arithmetic; only {ATTEMPT} is a number"),
        ("a <<END\n{PROMPT}\nEND", "the command has a here-document, which is not supported; use {PROMPT_FILE}"),
    ],
)
def test_a_template_that_cannot_be_used_says_why(text: str, message: str) -> None:
    with pytest.raises(TemplateError) as raised:
        parse_command(text)

    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("end", ["", " | cat"])
def test_a_value_too_long_for_an_argument_suggests_the_prompt_file(end: str) -> None:
    template = parse_command("a {PROMPT} {PROMPT_FILE}" + end)
    values = {"PROMPT": "x" * MAX_VALUE_BYTES, "PROMPT_FILE": "/tmp/p"}

    template.fill(values)
    with pytest.raises(TemplateError, match=r"\{PROMPT\} is 120 kB, but .* at most 120 kB; use \{PROMPT_FILE\}"):
        template.fill(values | {"PROMPT": "é" * (MAX_VALUE_BYTES // 2) + "x"})
    with pytest.raises(TemplateError, match=r"contains a NUL character.*\{PROMPT_FILE\}"):
        template.fill(values | {"PROMPT": "a\0b"})


def test_a_value_at_the_limit_can_really_be_passed() -> None:
    value = "x" * MAX_VALUE_BYTES

    assert arguments_seen("{PROMPT}", value) == [value]
    assert arguments_seen("{PROMPT} | cat", value) == [value]


def test_a_long_prompt_that_is_not_used_does_not_matter() -> None:
    assert parse_command("a {EVAL_ID}").fill({"PROMPT": "x" * 10**6, "EVAL_ID": "e"}).argv == ("a", "e")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{path}", ("/d/a b.txt",)),
        ("--file {path}", ("--file", "/d/a b.txt")),
        ("@{basename}", ("@a b.txt",)),
        ("'{basename}: {path}'", ("a b.txt: /d/a b.txt",)),
    ],
)
def test_each_file_stands_as_the_format_says(text: str, expected: tuple[str, ...]) -> None:
    assert parse_files_format(text).fill(["/d/a b.txt"]) == expected
    assert parse_files_format(text).fill([]) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the files format is empty; it may contain {path} and {basename}"),
        ("{file}", "the files format has the unsupported placeholder {file}; supported: {path}, {basename}"),
        ("'{path}", "the files format cannot be read: No closing quotation"),
    ],
)
def test_a_files_format_that_cannot_be_used_says_why(text: str, message: str) -> None:
    with pytest.raises(TemplateError) as raised:
        parse_files_format(text)

    assert str(raised.value) == message

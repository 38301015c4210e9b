"""Regular expressions of users: repeats that would take all memory are refused before anything is compiled."""

import resource
import subprocess
import sys

import pytest
import regex

from agentv.scoring.text.patterns import MAX_REPEATS, compile_pattern

TOO_LARGE = [
    "a{99999999}",
    "a{100001}",
    "a{100001,}",
    "a{100001,200000}",
    "a{100001}?",
    "a{100001}+",
    "a{60000}b{60000}",
    "a{60000}|b{60000}",
    "(?:a{1000}){1000}",
    "((a{100}){100}){11}",
    "(?:a{50,}b{51,}){1000}",
    "(?P<name>a{1000}){1000}",
    "(?<name>a{1000}){1000}",
    "(?>a{1000}){1000}",
    "(?=a{1000}){1000}",
    "(?<!a{200000})b",
    "(?|(a{1000})|(b)){1000}",
    "(?(DEFINE)(?<q>a{200000}))b",
    "(a)(?(1)b{200000}|c)",
    "(a)(?1){200000}",
    "(?i:a{1000}){1000}",
    "(?x)a {1000 000}",
    "(?x)a{1 # }\n000000}",
    "(?:a{1000} (?x) # )\n){1000}",
    "(?x:a{1000} # )\n){1000}",
    "[[]{200000}",
    "[]}]{200000}",
    r"(?V1)[[a]\]]{200000}",
    r"\p{L}{200000}",
    r"\N{DIGIT ONE}{200000}",
    r"\X{200000}",
    r"\b{200000}",
    r"(?:\w\d\w\d\w\d){100000}",
    "(?:a{e<=1}){200000}",
    "(?r)a{200000}",
]

ALLOWED = [
    "a{100000}",
    "(?:a{100}){1000}",
    "a{50000}b{50000}",
    "a{0,99999999}",
    "(?:a{0,99999999}){0,99999999}",
    "(?:(?:a+)+)+",
    "[{100001}]",
    "[]{99999999}]",
    r"\{99999999}",
    "a{99999999",
    "(?#a{99999999})b",
    "(?x) b # a{99999999}",
    r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}",
    "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
]


@pytest.mark.parametrize("pattern", TOO_LARGE)
def test_pattern_with_too_many_repeats_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"is too large: .* (allowed: 100,000 \(|allowed: 500,0)"):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", ALLOWED)
def test_pattern_within_the_bound_is_compiled(pattern: str) -> None:
    assert compile_pattern(pattern) is not None


def test_message_has_the_number_of_repeats_and_the_limit() -> None:
    with pytest.raises(ValueError, match=r"at least 1,000,000 repeats") as caught:
        compile_pattern("(?:a{1000}){1000}")
    assert f"{MAX_REPEATS:,}" in str(caught.value)


def test_message_has_the_number_of_parts_and_the_limit_if_that_is_exceeded() -> None:
    with pytest.raises(ValueError, match=r"written out it has 660,003 characters and sets; allowed: 500,023"):
        compile_pattern("(?:[abcdefghij]){60000}")


@pytest.mark.parametrize("pattern", ["(", "a{3}{4}", "a{4,3}", "[z-a]", "(?V0)(?V1)a{2}", "a{" + "9" * 5000 + "}"])
def test_invalid_pattern_is_reported_as_invalid(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not a valid regular expression: "):
        compile_pattern(pattern)


def test_pattern_nested_too_deeply_is_reported() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        compile_pattern("(?:" * 20_000 + "a{2}" + ")" * 20_000)


def test_flags_decide_what_is_a_comment() -> None:
    assert compile_pattern("a # a{99999999}", regex.VERBOSE) is not None
    with pytest.raises(ValueError, match="is too large"):
        compile_pattern("a # a{99999999}")


@pytest.mark.parametrize("pattern", ["a{99999999}", "(?:a{9999}){9999}", "(?x:a{9999} # )\n){9999}"])
def test_refusal_takes_no_memory(pattern: str) -> None:
    code = (
        "import resource, sys\n"
        "from agentv.scoring.text.patterns import compile_pattern\n"
        "try: compile_pattern(sys.argv[1])\n"
        "except ValueError as error: print(error)\n"
    )
    limit = 400 << 20

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = subprocess.run(
        [sys.executable, "-c", code, pattern], capture_output=True, text=True, preexec_fn=bound, timeout=20, check=True
    )
    assert "is too large" in done.stdout

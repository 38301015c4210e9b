import re

from hypothesis import given
from hypothesis import strategies as st

from agentv.execution.workspaces.workspaces import MAX_STEPS, ComparisonBudget, unified_hunks

texts = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "a\r\n"])).map("".join) | st.text("ab\n", max_size=40)


def patched(old: str, hunks: str) -> str:
    """Apply a diff as its format defines it, and hold every hunk to the old text on the way."""
    old_lines, new, at = re.findall(r"[^\n]*\n|[^\n]+", old), [], 0
    for hunk in re.split(r"(?m)^(?=@@ )", hunks)[1:]:
        head, _, body = hunk.partition("\n")
        start, count = re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@", head).groups("1")  # type: ignore[union-attr] # a test fails here
        begin = int(start) - (1 if int(count) else 0)
        new += old_lines[at:begin]
        at = begin
        for line in re.findall(r"([ +-])([^\n]*\n)(\\ No newline at end of file\n)?", body):
            text = line[1].removesuffix("\n") if line[2] else line[1]
            if line[0] != "+":
                assert old_lines[at] == text
                at += 1
            if line[0] != "-":
                new.append(text)
        assert at == begin + int(count)
    return "".join(new + old_lines[at:])


@given(texts, texts)
def test_a_diff_turns_the_old_text_into_the_new_one(old: str, new: str) -> None:
    assert patched(old, unified_hunks(old, new)) == new


@given(texts)
def test_equal_texts_have_no_hunks(text: str) -> None:
    assert unified_hunks(text, text) == ""


@given(texts, texts)
def test_a_diff_is_right_even_when_no_effort_is_left(old: str, new: str) -> None:
    assert patched(old, unified_hunks(old, new, ComparisonBudget(0))) == new


def test_distant_edits_are_hunks_of_their_own_with_three_lines_around() -> None:
    old = "".join(f"{number}\n" for number in range(1, 31))
    new = old.replace("2\n", "two\n", 1).replace("30\n", "30")
    assert unified_hunks(old, new) == (
        """\
@@ -1,5 +1,5 @@
 1
-2
+two
 3
 4
 5
@@ -27,4 +27,4 @@
 27
 28
 29
-30
+30
\\ No newline at end of file
"""
    )


def test_only_what_changed_is_shown() -> None:
    old = "".join(f"{number}\n" for number in range(20_000))
    hunks = unified_hunks(old, "first\n" + old.replace("777\n", "x\n", 1) + "last\n")
    assert [line for line in hunks.split("\n") if line[:1] in ("+", "-")] == ["+first", "-777", "+x", "+last"]


def test_texts_with_nothing_in_common_cost_a_bounded_effort() -> None:
    # Without the bound these 100,000 lines would take 10^10 steps.
    old, new = ("".join(f"{sign}{number}\n" for number in range(50_000)) for sign in "ab")
    budget = ComparisonBudget()
    hunks = unified_hunks(old, new, budget)
    assert hunks.startswith("@@ -1,50000 +1,50000 @@\n-a0\n")
    assert 5 * MAX_STEPS - budget.steps < 1.1 * MAX_STEPS

"""A comparison as Markdown: what a model said stays code."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reports.comparisons import document_of, moved, telling

from agentv.reports.document.markdown import documents_markdown
from agentv.reports.text.markup import inline_code

HOSTILE = "</code> <img src=x onerror=alert(1)> [a](javascript:b) @team `x` | y\n# head\n```\nfence"


@given(st.text())
def test_code_closes_where_its_text_ends(text: str) -> None:
    code = inline_code(text)
    fence = re.match(r"`+", code)
    assert fence is not None
    inner = code[len(fence[0]) : -len(fence[0])]
    assert code == f"{fence[0]}{inner}{fence[0]}"
    assert fence[0] not in re.findall(r"`+", inner)
    assert "\n" not in code


@pytest.mark.parametrize("text", ["plain", HOSTILE])
def test_the_finding_stands_first_and_a_reason_in_code(text: str) -> None:
    shown = documents_markdown([document_of(moved(), explain=telling(text))])
    assert shown.splitlines()[:3] == [
        "### agentv · compare",
        "",
        "**1 case fell, 1 rose: no significant difference (n needed: unknown, equal means)**",
    ]
    first, *others = (inline_code(line, max_chars=300) for line in text.splitlines()[:3])
    assert "\\\n  ".join((f"\\\n  reason: {first}", *others)) in shown


def test_what_a_terminal_counts_stands_here_too() -> None:
    shown = documents_markdown([document_of(moved())])
    assert "1 win, 1 loss, 0 ties at a threshold of 0.1\\\n1 pass more often, 1 less often\\\n2 cases: too few" in shown


def test_what_is_not_listed_is_counted() -> None:
    shown = documents_markdown([document_of(moved(), max_listed=0)])
    assert shown.count("- and 1 more: --list 1") == 2

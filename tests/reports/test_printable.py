"""Nothing that a model says can steer a terminal or hide from its reader."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.reports.text.printable import one_line, printable, printable_json

any_text = st.text(st.characters(codec=None, exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[H", "\\x1b[2J\\x1b[H"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("a\r\nb", "a\nb"),
        ("50 %\r100 %", "50 %\\x0d100 %"),
        ("back\x08\x08", "back\\x08\\x08"),
        ("user\u202egnp.exe", "user\\u202egnp.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("half \ud83d", "half \\ud83d"),
        ("日本語 👩‍👩‍👧 é", "日本語 👩‍👩‍👧 é"),
        ("tab\tand\nline", "tab\tand\nline"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(any_text)
def test_no_control_or_reordering_character_ever_passes(text: str) -> None:
    shown = printable(text)
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"]
    assert not [char for char in shown if unicodedata.bidirectional(char) in ("LRO", "RLO", "LRE", "RLE", "RLI", "LRI")]
    assert printable(shown) == shown


@given(any_text)
def test_one_line_is_one(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1


@given(st.text())
def test_json_means_the_same_and_is_safe_to_look_at(text: str) -> None:
    shown = printable_json(json.dumps({text: text}, ensure_ascii=False))
    assert json.loads(shown) == {text: text}
    assert printable(shown) == shown


def test_no_command_of_a_workflow_stands_in_json_and_its_meaning_stays() -> None:
    text = json.dumps({"##[group]a": "##[error]b"})
    assert "##[" not in printable_json(text)
    assert json.loads(printable_json(text)) == json.loads(text)

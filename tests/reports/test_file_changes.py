"""What an agent changed, on a terminal and on a page: safe, with its blanks, and folded where it is long."""

import re
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.stored import make_answer, make_case, make_result

from agentv.reports.html.parts import case_element
from agentv.reports.progress.progress import VerboseLines
from agentv.reports.run.file_changes import FileChanges
from agentv.reports.run.views import CaseView, RowDetail
from agentv.reports.text.signs import ASCII, in_colour
from agentv.reports.text.width import display_width
from agentv.types.events import AnswerArrived

DIFF = """\
diff --git a/notes.txt b/notes.txt
--- a/notes.txt
+++ b/notes.txt
@@ -1,4 +1,4 @@
 one

   two  \x20
---- three
++++ \x1b[31mthree\x1b[0m \u202e<script>alert(1)</script>
diff --git a/old.txt b/new.txt
similarity index 100%
rename from old.txt
rename to new.txt
diff --git a/logo.png b/logo.png
Binary files a/logo.png and b/logo.png differ
"""
CHANGED = [
    {"path": "notes.txt", "status": "modified", "bytes": 20},
    {"path": "new.txt", "status": "renamed", "bytes": 5, "before": "old.txt"},
    {"path": "logo.png", "status": "modified", "bytes": 1, "binary": True},
]


def view_of(workspace: Mapping[str, Any], **layout: Any) -> str:
    answer = make_answer(workspace=workspace, output_messages=None, trace=None)
    shown = CaseView(make_result(), make_case(), answer, **layout).render()
    return shown[shown.index("changed files") :]


def page_of(workspace: Mapping[str, Any]) -> str:
    detail = RowDetail(make_result(), make_case(), make_answer(workspace=workspace))
    return case_element([detail], number=1, run_id="r1", with_suite=False, with_target=False).markup


def lines_of(number: int) -> str:
    added = "".join(f"+line {each}\n" for each in range(number))
    return f"diff --git a/b b/b\n--- /dev/null\n+++ b/b\n@@ -0,0 +1,{number} @@\n{added}"


def test_a_case_shows_its_files_its_diff_and_its_workspace(tmp_path: Path) -> None:
    shown = view_of({"changed": CHANGED, "diff": DIFF, "path": str(tmp_path)}, width=None)
    listed, _, facts = shown.rpartition("\n\n")
    assert f"workspace: {tmp_path}\n" in facts
    assert (
        listed
        == """\
changed files: 3
│ modified  notes.txt  +1 -1
│ renamed   old.txt -> new.txt
│ modified  logo.png  binary, 1 byte

diff
│ diff --git a/notes.txt b/notes.txt
│ --- a/notes.txt
│ +++ b/notes.txt
│ @@ -1,4 +1,4 @@
│  one
│ \n\
│    two   \n\
│ ---- three
│ ++++ \\x1b[31mthree\\x1b[0m \\u202e<script>alert(1)</script>
│ diff --git a/old.txt b/new.txt
│ similarity index 100%
│ rename from old.txt
│ rename to new.txt
│ diff --git a/logo.png b/logo.png
│ Binary files a/logo.png and b/logo.png differ"""
    )


def test_lines_of_a_diff_have_their_colours_and_nothing_else_does() -> None:
    shown = view_of({"changed": CHANGED, "diff": DIFF}, paint=in_colour)
    assert "│ \x1b[31m---- three\x1b[0m\n" in shown
    assert "│ \x1b[32m++++ \\x1b[31mthree\\x1b[0m \\u202e<script>alert(1)</script>\x1b[0m\n" in shown
    assert "\x1b[31mthree" not in shown


def test_a_workspace_that_is_gone_is_not_named(tmp_path: Path) -> None:
    gone, on_node = str(tmp_path / "gone"), "node7:/tmp/workspaces/a"
    assert gone not in view_of({"changed": CHANGED, "diff": DIFF, "path": gone})
    assert on_node in view_of({"changed": CHANGED, "diff": DIFF, "path": on_node})


def test_a_long_diff_is_cut_with_the_command_that_shows_it() -> None:
    workspace = {"changed": [{"path": "b", "status": "added", "bytes": 900}], "diff": lines_of(100)}
    shown = view_of(workspace).splitlines()
    assert "│ (64 more lines of this file)" in shown
    assert any(re.fullmatch(r"64 lines not shown: agentv show \S+ \S+ -v", line) for line in shown)
    assert "│ +line 99" in view_of(workspace, is_full=True)
    assert "not shown" not in view_of(workspace, is_full=True)


@given(st.text(max_size=200), st.integers(40, 120))
def test_no_line_of_a_diff_is_wider_than_the_terminal(text: str, width: int) -> None:
    diff = f"diff --git a/a b/a\n@@ -1 +1 @@\n+{text}\n"
    shown = view_of({"changed": [{"path": "a", "status": "added"}], "diff": diff}, width=width)
    diff_lines = shown[: shown.rindex("\n\n")].splitlines()
    assert max(map(display_width, diff_lines)) <= width
    assert "\x1b" not in shown


def test_without_unicode_every_character_is_ascii() -> None:
    assert view_of({"changed": CHANGED, "diff": DIFF.replace("one", "\u00fc" * 3000)}, signs=ASCII).isascii()


@pytest.mark.parametrize(
    "workspace",
    [
        {},
        {"changed": 3, "diff": None, "path": 1},
        {"changed": "abc", "diff": ""},
        {"changed": [1, {}, {"path": "a", "status": "eaten"}]},
    ],
)
def test_what_is_no_list_of_files_is_left_out(workspace: dict[str, Any]) -> None:
    assert FileChanges.of(make_answer(workspace=workspace)) == FileChanges()
    assert "changed files" not in page_of(workspace)


def test_a_page_folds_each_file_and_escapes_it() -> None:
    shown = page_of({"changed": CHANGED, "diff": DIFF})
    assert "<script>alert" not in shown
    assert '<span class="same">   two   \n</span>' in shown
    assert (
        '<span class="added">++++ \\x1b[31mthree\\x1b[0m \\u202e&lt;script&gt;alert(1)&lt;/script&gt;\n</span>' in shown
    )
    assert shown.count('<details class="file" open>') == 3
    long = page_of({"changed": [{"path": "b", "status": "added"}], "diff": lines_of(1000)})
    assert '<details class="file">' in long
    assert re.search(r"and 604 more lines: <code>agentv show r1 \S+ -v</code>", long)


def test_verbose_lines_have_the_files_and_the_diff_of_an_answer(tmp_path: Path) -> None:
    stream = StringIO()
    workspace = {"changed": CHANGED, "diff": DIFF, "path": str(tmp_path)}
    VerboseLines(lambda: stream).notify(AnswerArrived(make_answer(workspace=workspace)))
    shown = stream.getvalue()
    assert "  changed files: 3\n  │ modified  notes.txt  +1 -1\n" in shown
    assert "  │    two   \n  │ ---- three\n  │ ++++ \\x1b[31mthree\\x1b[0m \\u202e<script>alert(1)</script>\n" in shown
    assert shown.endswith(f"  workspace: {tmp_path}\n")

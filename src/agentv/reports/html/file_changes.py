"""What an agent changed, in the HTML report: a list of files, each with its diff, folded."""

from collections.abc import Iterator

from agentv.reports.run.file_changes import FileChanges, FileDiff, file_text
from agentv.reports.text.amounts import count_text
from agentv.reports.text.markup import Html, element
from agentv.types.workspaces import ChangedFile

_MAX_FILES = 200
_MAX_FILE_LINES = 400
_MAX_DIFF_LINES = 2_000
_MAX_OPEN_LINES = 40
"""Up to this many lines in all, the diffs are shown unfolded."""


def changed_files(changes: FileChanges | None, command: str) -> Html | None:
    """Return the changed files with their diffs; `command` shows those that are cut. None without changes."""
    if changes is None or not (changes.files or changes.diffs):
        return None
    pairs = list(changes.pairs())
    is_open = sum(len(each.lines) for each in changes.diffs) <= _MAX_OPEN_LINES
    number = len(changes.files) or len(changes.diffs)
    heading = element("h3", "Changed files ", element("small", f"{number:,}"))
    more = [element("p", f"and {count_text(len(pairs) - _MAX_FILES, 'more file')}")] if len(pairs) > _MAX_FILES else []
    return element("section", heading, *_files(pairs[:_MAX_FILES], command, is_open=is_open), *more)


def _files(pairs: list[tuple[ChangedFile | None, FileDiff | None]], command: str, *, is_open: bool) -> Iterator[Html]:
    room = _MAX_DIFF_LINES
    for changed, diff in pairs:
        status = "diff" if changed is None else changed.status
        name = (diff.lines[0] if diff is not None else "") if changed is None else file_text(changed, diff)
        title = (element("span", status, class_=f"change {status}"), " ", element("code", name, dir="auto"))
        if diff is None:
            yield element("p", *title, class_="file")
            continue
        shown = min(len(diff.lines), _MAX_FILE_LINES, room)
        room -= shown
        yield element(
            "details",
            element("summary", *title),
            _diff(diff, shown),
            _rest(diff, shown, command),
            class_="file",
            open=is_open,
        )


def _diff(diff: FileDiff, shown: int) -> Html:
    return element(
        "div", *(element("span", f"{line.text}\n", class_=line.kind) for line in diff.shown(shown)), class_="diff"
    )


def _rest(diff: FileDiff, shown: int, command: str) -> Html | None:
    rest = len(diff.lines) - shown
    return (
        element("p", f"and {count_text(rest, 'more line')}: ", element("code", command), class_="notice")
        if rest
        else None
    )

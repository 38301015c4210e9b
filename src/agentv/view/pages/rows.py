"""The results of a run as a table: searched, filtered, sorted and paged by the index."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentv.reports.run.row_text import cell_text
from agentv.reports.run.views import counts_text
from agentv.reports.text.amounts import count_text, money_text, score_text, seconds_text
from agentv.reports.text.long_texts import shortened
from agentv.reports.text.markup import Child, Html, element
from agentv.reports.text.printable import one_line
from agentv.storage.index.row_query import Counted, CursorPage, Facets, RowEntry, RowQuery
from agentv.storage.index.texts import RowTexts
from agentv.storage.run.recorded_verdict import recorded_sentence
from agentv.storage.run.stored import StoredRun
from agentv.types.json_value import JsonObject
from agentv.view.address import ALL_TRIALS, PAGE_ROWS, Query, path_to, row_query
from agentv.view.elements import facet_list, filter_chips, search_field, shown_name, state_badge, table
from agentv.view.indexing import FoundRows
from agentv.view.pages.page import Page, Request
from agentv.view.pages.run import run_links, run_trail

_MAX_LINE_CHARS = 160
_MAX_DIGITS = 12
_COLUMNS: Sequence[tuple[str, str]] = (
    ("state", "state"),
    ("case", "id"),
    ("question", ""),
    ("answer", ""),
    ("score", "score"),
    ("why", ""),
    ("cost", "cost"),
    ("time", "duration"),
)
"""The columns, with the key that sorts by them."""
_DESCENDING_FIRST = ("cost", "duration")


def rows_page(request: Request) -> Page:
    """Return one page of a run's results."""
    stored = request.library.open(request.names["run"])
    address = request.query
    query = replace(row_query(address), one_trial=address.last("trial") is None)
    found = request.library.rows(stored, query)
    path = path_to("r", stored.run_id, "rows")
    facets = {} if found.counted is None else shown_facets(found.counted.facets)
    rows = [_Row(stored.run_id, entry, texts) for entry, texts in zip(found.page.rows, found.texts, strict=True)]
    first = _first_number(address)
    parts = [
        element("h1", "Rows"),
        element("p", _sentence(stored, found.page), class_="sentence", dir="auto"),
        search_field(path, address, label="Search cases, questions and answers"),
        filter_chips(path, address),
        facet_list(path, address, facets),
        element("p", _count_text(found, query, first), id="count"),
        _trials_note(path, address, query, found.page),
        *_notes(found, query),
        table(list(_heads(path, address, query)), [row.element() for row in rows], label="Rows") if rows else None,
        _pages(path, address, found, first),
    ]
    return Page(
        title=f"Rows of {stored.run.name or stored.run_id}",
        parts=parts,
        data={
            "total": None if found.counted is None else found.counted.total,
            "after": found.page.after,
            "before": found.page.before,
            "facets": {key: dict(counts) for key, counts in facets.items()},
            "rows": [row.to_json() for row in rows],
        },
        trail=run_trail(stored),
        address=path,
        links=run_links(stored, request.library.run_before(stored)),
        is_live=stored.state() == "running" or not found.is_final,
    )


def _sentence(stored: StoredRun, page: CursorPage) -> str:
    """Return the recorded verdict, which is not counted again; of a run without one its state."""
    so_far = "" if page.progress.is_complete else " indexed so far"
    return recorded_sentence(stored.folder, page.counts) or f"{stored.state()}: {counts_text(page.counts)}{so_far}"


def shown_facets(found: Facets) -> Mapping[str, Mapping[str, int]]:
    """Return the values of each filter with their numbers of results."""
    evaluators = {f"{name}:{outcome}": count for (name, outcome), count in found.evaluators.items()}
    return {
        "state": found.states,
        "evaluator": evaluators,
        "target": found.targets,
        "prompt": found.prompts,
        "tag": found.tags,
        "suite": found.suites,
    }


def _first_number(address: Query) -> int:
    """Return the number of the first result on the page, which the links between pages carry."""
    text = address.last("from") or "1"
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _MAX_DIGITS else 1


def _count_text(found: FoundRows, query: RowQuery, first: int) -> str:
    page = found.page
    progress, rows, results = page.progress, len(page.rows), sum(page.counts.values())
    indexed = "" if progress.is_complete else f"; {progress.share:.0%} of the run is indexed"
    if not rows:
        return f"No result matches{indexed}."
    if found.counted is None:
        total = "counting"
    elif query.one_trial and page.entries < results:
        total = f"of {_cases_text(found.counted)}"
        if found.counted.total == page.entries:
            total += f", {count_text(results, 'result')}"
    else:
        total = f"of {count_text(found.counted.total, 'result')}"
    return f"{first:,}–{first + rows - 1:,} {total}{indexed}"  # noqa: RUF001 - a range


def _cases_text(counted: Counted) -> str:
    """Return `1,200 cases`; of several targets or prompts `2,400 cases by target`."""
    parts = {"prompt": counted.facets.prompts, "target": counted.facets.targets}
    several = [name for name, values in parts.items() if len(values) > 1]
    by = f" by {' and '.join(several)}" if several else ""
    return f"{count_text(counted.total, 'case')}{by}"


def _trials_note(path: str, address: Query, query: RowQuery, page: CursorPage) -> Html | None:
    """Return what a case with several trials is listed by; None if no case has several, or each is listed."""
    results = sum(page.counts.values())
    if not query.one_trial or page.entries == results:
        return None
    link = element("a", "List each trial", href=address.choosing("trial", ALL_TRIALS).address(path))
    text = "Each case shows its worst trial; search, filters and order use that trial. "
    return element("p", element("small", text, link))


def _notes(found: FoundRows, query: RowQuery) -> Iterator[Html]:
    if found.problem:
        text = f"The index of the run cannot be completed ({one_line(found.problem)}), so results are missing here."
        yield element("p", text, class_="notice")
    if found.page.skipped:
        lines = count_text(found.page.skipped, "line")
        yield element("p", f"{lines} of results.jsonl cannot be read and are not listed.", class_="notice")
    if query.q and not found.page.words:
        yield element("p", "The search has no word to look for, and selects nothing.", class_="notice")
    elif query.q and not found.page.progress.words_ready:
        share = f"{found.page.progress.words_share:.0%}"
        yield element("p", f"Words of {share} of the results can be searched so far.", class_="notice")


def _heads(path: str, address: Query, query: RowQuery) -> Iterator[Child]:
    for name, key in _COLUMNS:
        if not key:
            yield name
            continue
        is_sorted = query.sort == key
        is_descending = not query.is_descending if is_sorted else key in _DESCENDING_FIRST
        target = address.choosing("sort", f"-{key}" if is_descending else key)
        arrow = (" ↓" if query.is_descending else " ↑") if is_sorted else ""
        yield element("a", f"{name}{arrow}", href=target.address(path))


class _Row(Struct, frozen=True):
    """One result of the list."""

    run_id: str
    entry: RowEntry
    texts: RowTexts

    def element(self) -> Html:
        """Return the row of the table."""
        entry, slot = self.entry, self.entry.slot
        name = element(
            "a", shown_name(slot.eval_id), href=path_to("r", self.run_id, "row", str(entry.line - 1)), dir="auto"
        )
        passed, trials = entry.trials or (0, 1)
        trial = f" trial {slot.trial + 1}" if slot.trial or trials > 1 else ""
        took = None if entry.duration_ms is None else entry.duration_ms / 1000
        return element(
            "tr",
            element("td", state_badge(entry.state), _passed(passed, trials)),
            element("th", name, element("small", f"{cell_text(slot.target, slot.prompt)}{trial}"), scope="row"),
            _line(self.texts.question or ""),
            _line(self.texts.answer),
            element("td", score_text(entry.score) if entry.score is not None else ""),
            _line(self._why()),
            element("td", money_text(entry.cost_usd)),
            element("td", seconds_text(took)),
        )

    def _why(self) -> str:
        """Return the error, else what each evaluator missed that did not pass."""
        if self.texts.error is not None:
            return self.texts.error
        failed = set(self.entry.failed)
        return " | ".join(f"{each.evaluator}: {each.text}" for each in self.texts.reasons if each.evaluator in failed)

    def to_json(self) -> JsonObject:
        """Return the result as the page's data has it."""
        return {
            **self.entry.slot.to_json(),
            "seq": self.entry.line - 1,
            "state": self.entry.state,
            "passed": None if self.entry.trials is None else self.entry.trials[0],
            "trials": None if self.entry.trials is None else self.entry.trials[1],
            "score": self.entry.score,
            "question": self.texts.question,
            "answer": self.texts.answer,
            "failed": list(self.entry.failed),
            "reason": self._why() or None,
            "cost_usd": self.entry.cost_usd,
            "duration_ms": self.entry.duration_ms,
        }


def _passed(passed: int, trials: int) -> Html | None:
    return element("small", f"{passed:,} of {trials:,} passed") if trials > 1 else None


def _line(text: str) -> Html:
    return element("td", shortened(" ".join(text[:1000].split()), max_chars=_MAX_LINE_CHARS), class_="wide", dir="auto")


def _pages(path: str, address: Query, found: FoundRows, first: int) -> Html | None:
    links = []
    if found.page.before is not None:
        before = address.choosing("before", found.page.before).with_value("from", str(max(1, first - PAGE_ROWS)))
        links.append(element("a", "previous", href=before.address(path), rel="prev"))
    if found.page.after is not None:
        after = address.choosing("after", found.page.after).with_value("from", str(first + len(found.page.rows)))
        links.append(element("a", "next", href=after.address(path), rel="next"))
    return element("nav", *links, class_="pages", aria_label="Pages of the list") if links else None

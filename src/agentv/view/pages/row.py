"""One result: question, answer, evaluators with their judges, transcript, changed files and raw records."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from agentv.reports.html.parts import row_parts
from agentv.reports.run.row_text import PLAIN_LABELS, row_score
from agentv.reports.run.views import RERUN_TEXTS, RowDetail
from agentv.reports.text.amounts import seconds_text
from agentv.reports.text.markup import Html, element
from agentv.scoring.results.aggregation import row_state
from agentv.storage.index.row_query import RowQuery
from agentv.storage.records.encode import export_record, to_record
from agentv.storage.run.stored import StoredRun
from agentv.types.evaluation import EvaluatorResult
from agentv.types.json_value import JsonObject
from agentv.types.messages_json import pretty_json
from agentv.types.records.result import CaseResult
from agentv.view.address import path_to, row_query
from agentv.view.elements import state_badge, table
from agentv.view.library import UnknownRunError
from agentv.view.pages.page import Link, Page, Request
from agentv.view.pages.run import run_links, run_trail
from agentv.view.pages.texts import links_to_texts, text_part, texts_of

_MAX_DIGITS = 10
_MAX_TRIALS = 100
"""The number of trials that are linked to."""


def row_page(request: Request) -> Page:
    """Return the result with the number of an address."""
    stored = request.library.open(request.names["run"])
    return _page(request, stored, _numbered(request, stored))


def text_page(request: Request) -> Page:
    """Return one part of the whole text of a result's question, answer, transcript or record."""
    stored, name = request.library.open(request.names["run"]), request.names["text"]
    detail = _numbered(request, stored)
    result = detail.result
    if name not in texts_of(detail):
        raise UnknownRunError(f"this result has no {name!r}; it has {', '.join(texts_of(detail))}")
    address = _address(stored, result)
    title = f"{name} of {result.eval_id}"
    shown = text_part(detail, name, request.query, address + path_to("text", name))
    return Page(
        title=title,
        parts=[element("h1", title, dir="auto"), shown],
        data={name: texts_of(detail)[name]},
        trail=(*run_trail(stored), Link(result.eval_id, address)),
        links=run_links(stored, request.library.run_before(stored)),
    )


def _numbered(request: Request, stored: StoredRun) -> RowDetail:
    text = request.names["seq"]
    is_number = text.isascii() and text.isdecimal() and len(text) < _MAX_DIGITS
    found = request.library.detail(stored, int(text)) if is_number else None
    if found is None:
        raise UnknownRunError(f"run {stored.run_id} has no result number {text}")
    return found


def _address(stored: StoredRun, result: CaseResult) -> str:
    return path_to("r", stored.run_id, "row", str(result.seq))


def case_page(request: Request) -> Page:
    """Return the result of a case; target, prompt and trial of the query choose among several."""
    stored, case, query = request.library.open(request.names["run"]), request.names["case"], request.query
    entries = request.library.entries(stored, replace(row_query(query), case=case))
    first = next((entry for entry in entries if entry.slot.eval_id == case), None)  # an id may look like a pattern
    detail = None if first is None else request.library.detail(stored, first.line - 1)
    if detail is None:
        raise UnknownRunError(f"run {stored.run_id} has no such result of case {case!r}")
    return _page(request, stored, detail)


def _page(request: Request, stored: StoredRun, detail: RowDetail) -> Page:
    result = detail.result
    state = row_state(result)
    name = PLAIN_LABELS.label(result)
    rerun = "" if result.rerun is None else f", a re-run ({RERUN_TEXTS[result.rerun]}) that does not count"
    parts = [
        element("h1", state_badge(state), f" {row_score(result)} ", element("span", name, dir="auto"), rerun),
        _trials(request, stored, result),
        element("h2", "Result", class_="unseen"),
        *row_parts(detail, stored.run_id),
        *_judges(result.evaluator_results),
        _attempts(detail),
        links_to_texts(detail, _address(stored, result)),
        _raw(detail),
    ]
    return Page(
        title=f"{result.eval_id} of {stored.run.name or stored.run_id}",
        parts=parts,
        data=_to_json(stored, detail),
        trail=(*run_trail(stored), Link("Rows", path_to("r", stored.run_id, "rows"))),
        links=run_links(stored, request.library.run_before(stored)),
    )


def _trials(request: Request, stored: StoredRun, result: CaseResult) -> Html | None:
    """Return links to the trials of a result's case, with its prompt and target; None if there is only one."""
    slot = result.slot
    query = RowQuery(case=slot.eval_id, suites=(slot.suite,), targets=(slot.target,))
    entries = request.library.entries(stored, query)
    trials = {each.line: each for each in entries if replace(each.slot, trial=slot.trial) == slot}
    if len(trials) <= 1:
        return None
    found = sorted(trials.values(), key=lambda each: each.slot.trial)
    items = (
        element(
            "li",
            element(
                "a",
                f"trial {each.slot.trial + 1}",
                href=path_to("r", stored.run_id, "row", str(each.line - 1)),
                aria_current="page" if each.line - 1 == result.seq else None,
            ),
            " ",
            state_badge(each.state),
        )
        for each in found[:_MAX_TRIALS]
    )
    more = element("li", f"and {len(found) - _MAX_TRIALS:,} more") if len(found) > _MAX_TRIALS else None
    return element("nav", element("ul", *items, more), class_="choice", aria_label="Trials")


def _judges(results: Sequence[EvaluatorResult]) -> Iterator[Html]:
    """Yield the prompt that each judge got and what it replied, folded."""
    for result in results:
        if result.evaluator_provider_request is not None or result.judge_calls:
            request = result.evaluator_provider_request
            yield element(
                "details",
                element("summary", f"The judge of {result.name}: prompt and reply"),
                element("h3", "Prompt") if request else None,
                element("div", pretty_json(request), class_="code text") if request else None,
                *(
                    element(
                        "section", element("h3", f"Reply of {call.judge}"), element("div", call.reply, class_="text")
                    )
                    for call in result.judge_calls
                ),
                class_="judge",
            )
        yield from _judges(result.evaluator_results)


def _attempts(detail: RowDetail) -> Html | None:
    """Return a table of the calls of the target, if there were several."""
    calls = () if detail.answer is None else detail.answer.calls
    if len(calls) <= 1:
        return None
    rows = [
        element(
            "tr",
            element("th", str(number), scope="row"),
            element("td", call.kind),
            element("td", f"{call.started_at:%H:%M:%S}"),
            element("td", seconds_text(call.duration_ms / 1000)),
            element("td", "" if call.status is None else str(call.status)),
        )
        for number, call in enumerate(calls, start=1)
    ]
    calls_table = table(("call", "outcome", "began (UTC)", "took", "status"), rows, label="Calls of the target")
    return element("details", element("summary", f"{len(calls)} calls of the target"), calls_table)


def _raw(detail: RowDetail) -> Html:
    text = pretty_json(export_record(detail.result, include_trace=False))
    return element("details", element("summary", "Raw record"), element("div", text, class_="code text"), class_="raw")


def _to_json(stored: StoredRun, detail: RowDetail) -> JsonObject:
    answer = detail.answer
    return {
        "case": None if detail.case is None else to_record(detail.case),
        "row": export_record(detail.result, include_trace=True),
        "answer": None if answer is None else to_record(replace(answer, run_id=stored.run_id)),
        "labels": [to_record(replace(label, run_id=stored.run_id)) for label in detail.labels],
    }

"""Two runs compared: what got worse first, with both answers and the sentence that says whether it is significant."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from agentv.engine.stored.report_tools import case_key_of, expected_of
from agentv.reports.compare.words import has_pairs, has_several, named_label, reason_line
from agentv.reports.document.html import HtmlRenderer
from agentv.reports.run.row_text import row_score
from agentv.reports.text.amounts import count_text, difference_text, score_text
from agentv.reports.text.long_texts import shortened
from agentv.reports.text.markup import Html, element
from agentv.reports.text.printable import one_line
from agentv.scoring.comparison.compare import Comparison, finding_text
from agentv.scoring.comparison.sides import PASSED, Side
from agentv.scoring.results.aggregation import row_state
from agentv.storage.index.pairs import CasePair, ChangedKind
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord
from agentv.types.results import CaseName
from agentv.view.address import BadAddressError, Query, choice_of, page_number, path_to
from agentv.view.answers import answer_text, case_texts, marked_answers, reason_text
from agentv.view.compared import KINDS, ComparedCase, ComparedRuns, Kind
from agentv.view.elements import (
    beyond_notice,
    choice_links,
    filter_chips,
    page_links,
    range_text,
    search_field,
    shown_name,
    state_badge,
)
from agentv.view.library import IncomparableRunsError, UnknownRunError
from agentv.view.pages.page import Link, Page, Request
from agentv.view.pages.run import RUNS

PAGE_CASES = 50
_MAX_FIRST_PAGES = 20
"""The number of pages that can be shown before the comparison is counted."""
_SEPARATOR = ".."
_MAX_NAMES = 12
"""The number of suites, targets or prompts that can be chosen by a link; an address may name any."""
_TWO = 2
_DIFF: Sequence[Literal["yes", "no"]] = ("yes", "no")
_FILTER_KEYS = ("suite", "target", "prompt")
_CHANGED_KINDS: Mapping[Kind, ChangedKind] = {"changed": "changed", "lost": "lost", "won": "won"}
_KIND_WORDS: Mapping[Kind, str] = {
    "changed": "changed",
    "lost": "lost",
    "won": "won",
    "same": "same score",
    "errors": "without a result",
}
_NOTHING: Mapping[Kind, str] = {
    "changed": "No score changed.",
    "lost": "No case was lost.",
    "won": "No case was won.",
    "same": "No case has the same score in both runs.",
    "errors": "Every trial of every case has a result in both runs.",
}


Passed: TypeAlias = tuple[int, int]
"""The numbers of trials that passed and that were judged."""


class _Shown(Struct, frozen=True):
    """A compared case with what is stored of it; None where nothing is."""

    compared: ComparedCase
    passed: tuple[Passed, Passed]
    record: CaseRecord | None
    before: CaseResult | None
    after: CaseResult | None


def compare_two_page(request: Request) -> Page:
    """Lead to the comparison of the two runs that a form names: `a` and `b`, or two `run` with the later one first."""
    query = request.query
    runs = query.all("run")[::-1]
    first, second = query.last("a"), query.last("b")
    if first is not None and second is not None:
        runs = (first, second)
    if len(runs) != _TWO:
        raise BadAddressError(
            f"a comparison needs two runs, not {len(runs)}; mark two in the list of runs, or open /compare?a=RUN&b=RUN"
        )
    before, after = (request.library.open(run).run_id for run in runs)
    location = _path(before, after)
    return Page(title="Compare", parts=[], data={"location": location}, location=location)


def compare_page(request: Request) -> Page:
    """Return one page of the cases of two runs, those that got worse first."""
    before, after = _runs(request)
    address, number = request.query, page_number(request.query)
    kind = choice_of(address, "only", KINDS, "changed")
    is_marked = choice_of(address, "diff", _DIFF, "yes") == "yes"
    compared = _compared(request, before, after)
    total, cases = compared.select(kind, _accepts(address), start=(number - 1) * PAGE_CASES, size=PAGE_CASES)
    path = _path(before.run_id, after.run_id)
    view = _CompareView(before, after, has_several(compared.comparison), is_marked=is_marked)
    band, *numbers = HtmlRenderer().document(compared.summary)
    noun = "pair" if has_pairs(compared.comparison) else "case"
    data, items = [], []
    for shown in _shown_cases(before, after, compared, cases):
        items.append(view.item(shown))
        data.append(_case_json(shown))
    parts = [
        band,
        element("p", f"Each target by itself: {one_line(compared.by_target)}", class_="sentence", dir="auto")
        if compared.by_target
        else None,
        _setup_note(compared),
        _kinds(path, address, {kind: compared.count(kind) for kind in KINDS}, noun),
        search_field(path, address, label="Search cases"),
        filter_chips(path, address),
        element("div", *_filters(path, address, compared.comparison), class_="choices"),
        element("p", range_text(number, PAGE_CASES, total, noun), id="count", role="status"),
        *(items or [_nothing(path, address, kind, total, is_paired=compared.comparison.is_paired)]),
        page_links(path, address, page=number, pages=-(-total // PAGE_CASES)),
        element("section", element("h2", "Measures"), *numbers, id="measures"),
    ]
    return Page(
        title=f"{_name(before)} compared with {_name(after)}",
        parts=parts,
        data=_to_json(compared, kind, total, number, data),
        trail=_trail(before, after),
        links=_links(before, after),
        address=path,
        is_live="running" in (before.state(), after.state()),
    )


def compare_first_look(request: Request) -> Page | None:
    """Return the cases of two long runs that changed, while it is counted whether that can be chance; else None."""
    before, after = _runs(request)
    address, number = request.query, page_number(request.query)
    kind = choice_of(address, "only", KINDS, "changed")
    changed = _CHANGED_KINDS.get(kind)
    if changed is None or number > _MAX_FIRST_PAGES:
        return None
    found = request.library.changed_pairs(
        before, after, changed, _accepts(address), most=number * PAGE_CASES, named=_chosen(address)
    )
    if found is None:
        return None
    path, is_marked = _path(before.run_id, after.run_id), choice_of(address, "diff", _DIFF, "yes") == "yes"
    view = _CompareView(before, after, found.has_several, is_marked=is_marked)
    noun = "pair" if any(found.has_several[1:]) else "case"
    items = [view.item(each) for each in _first_shown(request, before, after, found.pairs[(number - 1) * PAGE_CASES :])]
    counts = found.counts
    parts = [
        element("h1", f"{count_text(counts['lost'], noun)} lost, {counts['won']:,} won"),
        element("p", "The significance is being computed; it appears here as soon as it is known."),
        _kinds(path, address, counts, noun),
        search_field(path, address, label="Search cases"),
        filter_chips(path, address),
        element("p", range_text(number, PAGE_CASES, found.total, noun), id="count", role="status"),
        *(items or [_nothing(path, address, kind, found.total, is_paired=True)]),
        page_links(path, address, page=number, pages=-(-found.total // PAGE_CASES)),
    ]
    return Page(
        title=f"{_name(before)} compared with {_name(after)}",
        parts=parts,
        data={},
        trail=_trail(before, after),
        links=_links(before, after),
        address=path,
        is_live=True,
        is_preparing=True,
    )


def _first_shown(request: Request, before: StoredRun, after: StoredRun, pairs: Sequence[CasePair]) -> Iterator[_Shown]:
    """Yield pairs with the results that show their change best."""
    old = request.library.details(
        before, [each.before.best if each.has_fallen else each.before.worst for each in pairs]
    )
    new = request.library.details(after, [each.after.worst if each.has_fallen else each.after.best for each in pairs])
    for pair, first, second in zip(pairs, old, new, strict=True):
        cases = [each.case for each in (first, second)]
        keys = {None if each is None else each.case_key for each in cases} - {None}
        is_changed = len(keys) > 1 and pair.before.name.prompt == pair.after.name.prompt
        yield _Shown(
            ComparedCase.of(pair, is_content_changed=is_changed),
            ((pair.before.passed, pair.before.judged), (pair.after.passed, pair.after.judged)),
            second.case,
            first.result,
            second.result,
        )


def _trail(before: StoredRun, after: StoredRun) -> tuple[Link, ...]:
    return RUNS, *(Link(_name(each), path_to("r", each.run_id)) for each in (before, after))


def _links(before: StoredRun, after: StoredRun) -> tuple[Link, ...]:
    return (
        Link("Compare", _path(before.run_id, after.run_id)),
        Link("Swap", _path(after.run_id, before.run_id)),
    )


def _path(before: str, after: str) -> str:
    return path_to("compare", f"{before}{_SEPARATOR}{after}")


def _runs(request: Request) -> tuple[StoredRun, StoredRun]:
    """Return the two runs of an address such as `/compare/A..B`."""
    named = request.names["runs"].split(_SEPARATOR)
    if len(named) != _TWO or not all(named):
        raise BadAddressError(f"{request.names['runs']!r} does not name two runs; use /compare/BEFORE..AFTER")
    try:
        before, after = (request.library.open(name) for name in named)
    except UnknownRunError as error:
        raise UnknownRunError(f"{error}; a baseline file is compared by `agentv compare FILE RUN`") from None
    return before, after


def _compared(request: Request, before: StoredRun, after: StoredRun) -> ComparedRuns:
    try:
        return request.library.comparison(before, after)
    except ConfigError as error:
        raise IncomparableRunsError(str(error)) from None


def _name(stored: StoredRun) -> str:
    return stored.run.name or stored.run_id


def _chosen(query: Query) -> tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the text, suites, targets and prompts that an address chooses."""
    suites, targets, prompts = (query.all(key) for key in _FILTER_KEYS)
    return (query.last("q") or "").lower(), suites, targets, prompts


def _accepts(query: Query) -> Callable[[CaseName], bool] | None:
    """Return the filter of an address on the names of cases; None without one."""
    text, suites, targets, prompts = _chosen(query)
    if not (text or suites or targets or prompts):
        return None
    return lambda name: (
        text in name.eval_id.lower()
        and (not suites or name.suite in suites)
        and (not targets or name.target in targets)
        and (not prompts or name.prompt in prompts)
    )


def _shown_cases(
    before: StoredRun, after: StoredRun, compared: ComparedRuns, cases: Sequence[ComparedCase]
) -> Iterator[_Shown]:
    names = [case.pair.after for case in cases]
    sides = compared.comparison.before, compared.comparison.after
    records = {case_key_of(each): each for each in after.cases_named({(name.suite, name.eval_id) for name in names})}
    for case, name in zip(cases, names, strict=True):
        rows = compared.shown_rows(case)
        first, second = (
            None if row is None else next(stored.results_at([row]))
            for stored, row in zip((before, after), rows, strict=True)
        )
        passed = _passed(sides[0], case.pair.before), _passed(sides[1], name)
        yield _Shown(case, passed, records.get((name.suite, name.eval_id, name.prompt)), first, second)


def _setup_note(compared: ComparedRuns) -> Html:
    """Return links to what is below the cases, with the number of settings that differ."""
    differing = len(compared.circumstances)
    settings = f"{differing:,} settings differ" if differing > 1 else "1 setting differs"
    text = f"{settings} between the runs" if differing else "both runs have the same settings"
    return element("p", element("a", f"Measures with intervals; {text}", href="#measures"), class_="sentence")


def _kinds(path: str, address: Query, counts: Mapping[str, int], noun: str) -> Html:
    tabs = [(None if kind == KINDS[0] else kind, f"{_KIND_WORDS[kind]} {counts[kind]:,}") for kind in KINDS]
    return choice_links(path, address, "only", tabs, label=f"{noun.capitalize()}s")


def _filters(path: str, address: Query, comparison: Comparison) -> Iterator[Html]:
    """Yield the choice of a suite, target or prompt where there are several, and that of marked words."""
    side = comparison.after
    values: Sequence[Sequence[str | None]] = (side.suites, side.targets, side.prompts)
    for key, names in zip(_FILTER_KEYS, values, strict=True):
        if len(names) > 1:
            chosen = address.all(key)
            shown = [name for place, name in enumerate(names) if name and (place < _MAX_NAMES or name in chosen)]
            choices: list[tuple[str | None, str]] = [(None, "all"), *((name, name) for name in shown)]
            yield choice_links(path, address, key, choices, label=key.capitalize())
    yield choice_links(path, address, "diff", ((None, "marked"), ("no", "not marked")), label="Differences")


def _nothing(path: str, address: Query, kind: Kind, total: int, *, is_paired: bool) -> Html:
    if not is_paired:
        why = "The runs have too few cases in common to be compared case by case; the measures below are of all cases."
        return element("p", why, class_="notice")
    if total:
        return beyond_notice(path, address)
    if _accepts(address) is None:
        return element("p", _NOTHING[kind], class_="notice")
    link = element("a", "Remove the filter", href=address.without("q", "page", *_FILTER_KEYS).address(path))
    return element("p", "No case matches. ", link, class_="notice")


class _CompareView(Struct, frozen=True):
    """The layout of the cases of two runs."""

    before: StoredRun
    after: StoredRun
    several: tuple[bool, bool, bool]
    """True for suite, target and prompt if one of the runs has several."""
    is_marked: bool

    def item(self, shown: _Shown) -> Html:
        """Return a case with its question, both answers and the reasons for their scores."""
        name, difference = shown.compared.pair.after, shown.compared.difference
        facts = [
            "" if difference is None else f"{score_text(difference.before)} → {score_text(difference.after)}",
            "" if difference is None else difference_text(difference.difference),
            _trials_text(*shown.passed),
            "content changed" if difference is not None and difference.is_content_changed else "",
        ]
        return element(
            "article",
            element(
                "h2",
                _badge(shown.compared),
                " ",
                element("span", shown_name(named_label(name, self.several)), dir="auto"),
                element("small", f" {' · '.join(filter(None, facts))}"),
            ),
            None if shown.record is None else case_texts(shown.record.last_question, expected_of(shown.record)),
            element("div", *self._sides(shown), class_="pair"),
            class_="compared",
        )

    def _sides(self, shown: _Shown) -> Iterator[Html]:
        """Yield both answers with the words marked that only one of them has."""
        case, results = shown.compared.pair.after.eval_id, (shown.before, shown.after)
        answers = [None if each is None else answer_text(each) for each in results]
        texts = ["" if each is None else each.candidate_answer for each in results]
        if self.is_marked and all(texts):
            answers[:] = marked_answers(*texts)
        yield self._side("before", self.before, shown.before, answers[0], case)
        yield self._side("after", self.after, shown.after, answers[1], case)

    def _side(self, when: str, stored: StoredRun, result: CaseResult | None, answer: Html | None, case: str) -> Html:
        if result is None:
            return element("section", element("h3", when), element("p", "not stored", class_="quiet"))
        score = row_score(result)
        link = element(
            "a",
            "open",
            href=path_to("r", stored.run_id, "row", str(result.seq)),
            aria_label=f"open the result {when} of {case}",
            data_main=when == "after",  # what Enter opens
        )
        return element(
            "section",
            element("h3", f"{when} ", state_badge(row_state(result)), f" {score} " if score else " ", link),
            answer,
            reason_text(result),
        )


def _badge(case: ComparedCase) -> Html:
    difference = case.difference
    if difference is None:
        return state_badge("error", "without a result")
    match difference.change:
        case "regressed":
            return state_badge("fail", "lost")
        case "improved":
            return state_badge("pass", "won")
        case _:
            return state_badge("borderline", "same" if not difference.difference else "changed a little")


def _trials_text(before: Passed, after: Passed) -> str:
    """Return `3 of 3 → 1 of 3 passed`; empty if each run has one trial."""
    return "" if before[1] == after[1] == 1 else f"{_of(before)} → {_of(after)} passed"


def _passed(side: Side, name: CaseName) -> Passed:
    """Return the numbers of trials of a case that passed and that were judged."""
    column, index = side.column(PASSED), side.index_of(name)
    return (0, 0) if index is None or not column.count(index) else (round(column.sums[index]), column.count(index))


def _of(passed: Passed) -> str:
    return f"{passed[0]:,} of {passed[1]:,}"


def _to_json(compared: ComparedRuns, kind: Kind, total: int, page: int, cases: Sequence[JsonObject]) -> JsonObject:
    comparison, score = compared.comparison, compared.comparison.score
    bounds = None if score is None else score.interval
    return {
        "before": comparison.before.label,
        "after": comparison.after.label,
        "finding": finding_text(comparison),
        "direction": comparison.finding,
        "by_target": compared.by_target or None,
        "difference": None if score is None else score.difference,
        "interval": None if bounds is None else [bounds.low, bounds.high],
        "p": None if score is None else score.p,
        "differs": [{"what": each.name, "before": each.before, "after": each.after} for each in compared.circumstances],
        "counts": {each: compared.count(each) for each in KINDS},
        "only": kind,
        "total": total,
        "page": page,
        "cases": list(cases),
    }


def _case_json(shown: _Shown) -> JsonObject:
    name, difference = shown.compared.pair.after, shown.compared.difference
    return {
        "suite": name.suite,
        "eval_id": name.eval_id,
        "target": name.target,
        "prompt": name.prompt,
        "change": None if difference is None else difference.change,
        "difference": None if difference is None else difference.difference,
        "question": None if shown.record is None else shown.record.question,
        "expected": None if shown.record is None else expected_of(shown.record),
        "before": _side_json(shown.before, None if difference is None else difference.before),
        "after": _side_json(shown.after, None if difference is None else difference.after),
    }


def _side_json(result: CaseResult | None, mean_score: float | None) -> JsonObject | None:
    if result is None:
        return None
    return {
        "run_id": result.run_id,
        "seq": result.seq,
        "state": row_state(result),
        "score": result.score,
        "mean_score": mean_score,
        "answer": shortened(result.candidate_answer),
        "reason": reason_line(result),
    }

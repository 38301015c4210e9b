"""Results of the HTML report, which expand."""

import shlex
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from agentv.reports.html.file_changes import changed_files
from agentv.reports.run.figures import usage_text
from agentv.reports.run.file_changes import FileChanges
from agentv.reports.run.row_text import LABELS_WITHOUT_TARGET, case_key, row_reason, row_score
from agentv.reports.run.transcript import shown_output, tool_of
from agentv.reports.run.views import PARTIAL_ANSWER, PARTIAL_TRANSCRIPT, RowDetail, label_text, partial_of
from agentv.reports.text.amounts import count_text, money_text, score_text, seconds_text
from agentv.reports.text.long_texts import MAX_TEXT_CHARS, shortened
from agentv.reports.text.markup import Child, Html, element
from agentv.reports.text.signs import UNICODE
from agentv.scoring.gates.failing_cases import shown_first
from agentv.scoring.results.aggregation import TURN, row_state
from agentv.scoring.results.turns import turn_name
from agentv.scoring.tools.tool_calls import calls_of, results_of
from agentv.types.evaluation import EvaluatorResult
from agentv.types.json_value import JsonValue
from agentv.types.messages import Message, TraceEvent
from agentv.types.messages_json import compact_json, content_text, pretty_json
from agentv.types.records.answer import source_of
from agentv.types.records.result import CaseResult

_MAX_REASON_CHARS = 400
_MAX_BRIEF_CHARS = 120
_MAX_LIST_CHARS = 100_000
_MAX_TRIALS_CHARS = 1_000_000
"""The size of the trials of a case with details; further ones are shown without them."""


def case_element(
    trials: Sequence[RowDetail],
    *,
    number: int,
    run_id: str,
    with_suite: bool,
    with_target: bool,
    is_brief: bool = False,
    is_complete: bool = True,
) -> Html:
    """Return a case with its trials as an expandable element. The script filters and sorts by its `data-` attributes.

    The first trial of the worst state is shown. Suite and target are shown if the run has several. A brief element has
    a command that prints the details. `is_complete` False: trials may be missing, and are not counted.
    """
    shown = min(trials, key=lambda each: shown_first(each.result))
    result, state = shown.result, row_state(shown.result)
    score = row_score(result)
    passed = sum(row_state(each.result) == "pass" for each in trials)
    count = f"{passed} of {len(trials)}" if len(trials) > 1 and is_complete else ""
    suite = element("small", result.slot.suite) if with_suite else None
    target = element("span", result.slot.target, class_="target", dir="auto") if with_target else None
    name = LABELS_WITHOUT_TARGET.label(result) if len(trials) == 1 else LABELS_WITHOUT_TARGET.case(result)
    line = element(
        "summary",
        element("span", UNICODE.marks[state], class_="mark", title=state),
        element("span", name, suite, class_="case", dir="auto"),
        target,
        element("span", count or score or state, class_="score", title=f"{count} passed" if count else None),
        element("span", _short_reason(result), class_="reason", dir="auto"),
    )
    inside = [_omitted_note(shown, run_id)] if is_brief else _trials(trials, shown, run_id)
    return element(
        "details",
        line,
        element("div", *inside, class_="inside"),
        class_=f"row {state}",
        id=f"row-{number}",
        data_state=state,
        data_target=result.slot.target,
        data_prompt=result.prompt,
        data_case=case_key(result.slot.suite, result.eval_id),
        data_score=str(result.score) if score and result.score is not None else None,
        data_took=None if result.duration_ms is None else f"{result.duration_ms:.0f}",
        data_cost=None if result.cost_usd is None else repr(result.cost_usd),
    )


def _short_reason(result: CaseResult) -> str:
    return "" if row_state(result) == "pass" else shortened(row_reason(result), max_chars=_MAX_REASON_CHARS)


def _trials(trials: Sequence[RowDetail], shown: RowDetail, run_id: str) -> Iterator[Html | None]:
    """Yield the parts of the only trial, or an expandable element for each trial, with the shown one open."""
    if len(trials) == 1:
        yield from row_parts(shown, run_id)
        return
    size = 0
    for detail in sorted(trials, key=lambda each: each.result.slot.trial):
        result, state = detail.result, row_state(detail.result)
        head = element(
            "summary",
            element("span", UNICODE.marks[state], class_="mark", title=state),
            f" trial {result.slot.trial + 1} {row_score(result) or state} ",
            element("span", _short_reason(result), class_="reason", dir="auto"),
        )
        parts = [_omitted_note(detail, run_id)] if size > _MAX_TRIALS_CHARS else row_parts(detail, run_id)
        trial = element("details", head, *parts, class_=f"trial {state}", open=detail is shown)
        size += len(trial.markup)
        yield trial


def _omitted_note(detail: RowDetail, run_id: str) -> Html:
    command = element("code", f"agentv show {run_id} {detail.result.eval_id}")
    return element("p", "Details omitted to limit the size of the page: ", command, class_="notice")


def row_parts(detail: RowDetail, run_id: str) -> Iterator[Html | None]:
    """Yield all that is stored of a result: texts, evaluators, labels, transcript, changed files, facts."""
    result, case = detail.result, detail.case
    turns = () if detail.answer is None else detail.answer.messages_by_turn
    yield _error(result)
    messages = () if case is None else case.input_messages
    if turns:
        yield _steps("Messages before the first turn", messages)
    else:
        question = "" if case is None else case.question
        yield _steps("Question", messages) if len(messages) > 1 else _text_section("Question", question)
    expected: Sequence[Html | None] = ()
    if case is not None:
        outcome = _text_section("Expected outcome", case.expected_outcome)
        expected = (outcome, _text_section("Reference answer", case.reference_answer or ""))
    partial = partial_of(result, detail.answer)
    if partial is not None:
        yield _text_section(_capitalized(PARTIAL_ANSWER), partial.text)
    answer = None if turns else _text_section("Answer", result.candidate_answer)
    yield element("div", answer, element("div", *expected) if any(expected) else None, class_="pair")
    messages_by_name = {turn_name(number): messages for number, messages in enumerate(turns, start=1)}
    for each in result.evaluator_results:
        yield _turn(each, messages_by_name.get(each.name, ())) if each.type == TURN else _evaluator(each)
    yield _labels(detail)
    yield None if turns else _transcript(detail)
    changes = FileChanges.of(detail.answer)
    yield changed_files(changes, f"agentv show {shlex.quote(run_id)} {shlex.quote(result.eval_id)} -v")
    yield _facts(detail, changes)


def answer_parts(detail: RowDetail) -> Iterator[Html | None]:
    """Yield what a person needs to judge an answer: question, answer and transcript, in full; nothing of a judge."""
    yield from question_parts(detail)
    yield from reply_parts(detail)


def question_parts(detail: RowDetail) -> Iterator[Html | None]:
    """Yield the question in full; of a conversation that is held live, the messages before its first turn."""
    case, answer = detail.case, detail.answer
    messages = () if case is None else case.input_messages
    if answer is not None and answer.messages_by_turn:
        yield _steps("Messages before the first turn", messages)
    elif len(messages) > 1:
        yield _steps("Question", messages)
    else:
        yield _whole_section("Question", "" if case is None else case.question)


def reply_parts(detail: RowDetail, *, key: str | None = "x") -> Iterator[Html | None]:
    """Yield answer and transcript in full; of a conversation its turns. `key` folds the transcript in the viewer."""
    result, answer = detail.result, detail.answer
    turns = () if answer is None else answer.messages_by_turn
    if turns:
        yield from (_steps(f"Turn {number}", messages) for number, messages in enumerate(turns, start=1))
        return
    yield _whole_section("Answer", result.candidate_answer) or _text_section("Answer", "(empty)")
    steps = _transcript(detail, with_title=False)
    if steps is not None:
        summary = element("summary", "Transcript ", element("kbd", key) if key else None, data_key=key)
        yield element("details", summary, steps, open=True)


def expected_parts(detail: RowDetail) -> Iterator[Html | None]:
    """Yield what a case expects."""
    case = detail.case
    if case is None or not (case.expected_outcome or case.reference_answer):
        yield element("p", "The case does not say what it expects.")
        return
    yield _whole_section("Expected outcome", case.expected_outcome)
    yield _whole_section("Reference answer", case.reference_answer or "")


def _whole_section(title: str, text: str) -> Html | None:
    """Return a text that is not shortened, however long it is."""
    parts = [text[start : start + MAX_TEXT_CHARS] for start in range(0, len(text), MAX_TEXT_CHARS)]
    return element("section", element("h3", title), element("div", *parts, class_="text", dir="auto")) if text else None


def _text_section(title: str, text: str) -> Html | None:
    return element("section", element("h3", title), _block(text)) if text else None


def _capitalized(title: str) -> str:
    return title[:1].upper() + title[1:]


def _block(text: str, class_: str = "text") -> Html:
    return element("div", text, class_=class_, dir="auto")


def _error(result: CaseResult) -> Html | None:
    failure = result.error
    if failure is None:
        return None
    status = f", HTTP {failure.http_status}" if failure.http_status is not None else ""
    return element(
        "section", element("h3", f"Error ({failure.kind} at {failure.stage}{status})"), _block(failure.message)
    )


def _evaluator(result: EvaluatorResult) -> Html:
    is_judged = result.status not in ("error", "skipped")
    facts = [
        f"weight {result.weight:g}" if result.weight != 1 else "",
        "required" if result.required else "",
        result.status if result.status != "scored" else "",
    ]
    verdict = result.verdict if is_judged and result.verdict else result.status
    head = element(
        "h3",
        element(
            "span", f"{score_text(result.score) if is_judged else ''} {verdict}".strip(), class_=f"badge {verdict}"
        ),
        f" {result.name} ",
        element("small", " · ".join([result.type, *filter(None, facts)])),
    )
    aspects = [*(("hit", f"✓ {hit}") for hit in result.hits), *(("miss", f"✗ {miss}") for miss in result.misses)]
    criteria = result.results if len(result.results) > 1 else ()
    items = [element("li", text, class_=kind, dir="auto") for kind, text in aspects]
    items += [
        element(
            "li",
            f"{each.criterion_name}: {each.error or each.score}",
            f" — {each.reasoning}" if each.reasoning else None,
            dir="auto",
        )
        for each in criteria
    ]
    return element(
        "section",
        head,
        None if result.error is None else _block(f"error ({result.error.kind}): {result.error.message}"),
        element("ul", *_limited(items)) if items else None,
        _block(result.reasoning) if result.reasoning else None,
        *map(_evaluator, result.evaluator_results),
        class_="evaluator",
    )


def _turn(result: EvaluatorResult, messages: Sequence[Message]) -> Html:
    """Return the messages of one turn of a conversation, with the results of its evaluators."""
    # If the turn has evaluators, their findings are shown below instead of those of the turn.
    without_findings = replace(result, hits=(), misses=(), reasoning=None, error=None, evaluator_results=())
    head = _evaluator(without_findings if result.evaluator_results else result)
    return element("section", head, _steps("", messages), *map(_evaluator, result.evaluator_results), class_="turn")


def _labels(detail: RowDetail) -> Html | None:
    if not detail.labels:
        return None
    items = [element("li", label_text(each), dir="auto") for each in detail.labels]
    return element("section", element("h3", "Human labels"), element("ul", *items))


def _transcript(detail: RowDetail, *, with_title: bool = True) -> Html | None:
    source, title = detail.answer or detail.result, "Transcript"
    partial = partial_of(detail.result, detail.answer)
    messages, trace = source.output_messages or (), source.trace or ()
    if partial is not None:
        messages, trace, title = partial.output_messages or (), partial.trace or (), _capitalized(PARTIAL_TRANSCRIPT)
    return _steps(title if with_title else "", messages, trace)


def _steps(title: str, messages: Sequence[Message], trace: Sequence[TraceEvent] = ()) -> Html | None:
    """Return messages and their calls as a list, or else a trace; None if there are none."""
    tools: dict[str, str] = {}
    steps = [step for message in messages for step in _message(message, tools)] or list(map(_event, trace))
    if not steps:
        return None
    shown = list(_limited(steps))
    left_out = len(steps) - len(shown)
    more = element("li", f"and {count_text(left_out, 'step')} more") if left_out else None
    heading = element("h3", title) if title else None
    return element("section", heading, element("ol", *shown, more, class_="transcript"))


def _limited(parts: Sequence[Html]) -> Iterator[Html]:
    """Yield parts up to the size limit of a list, but at least one."""
    size = 0
    for part in parts:
        size += len(part.markup)
        if size > _MAX_LIST_CHARS and size > len(part.markup):
            return
        yield part


def _message(message: Message, tools: dict[str, str]) -> Iterator[Html]:
    """Yield the text of a message, its calls and its results; `tools` collects the tools of calls by their ids."""
    calls, results = calls_of(message), tuple(results_of(message))
    text = "" if message.role == "tool" and results else content_text(message.content)
    if text or not (calls or results):
        yield element("li", element("b", message.role), _block(text))
    tools.update({call.id: call.tool for call in calls if call.id is not None})
    yield from (_call(call.tool, call.input, call.output) for call in calls)
    yield from (_call(f"{tool_of(each, tools)} ->", None, shown_output(each.output)) for each in results)


def _event(event: TraceEvent) -> Html:
    if event.text and event.input is None and event.output is None:
        return element("li", element("b", f"{event.type} {event.name or ''}".strip()), _block(event.text))
    return _call(f"{event.type} {event.name or ''}".strip(), event.input, event.output)


def _call(name: str, input_: JsonValue, output: JsonValue) -> Html:
    parts: list[Child] = [element("summary", element("code", name), " ", element("small", _brief(input_)))]
    parts += [
        element("div", element("small", title), _block(_value(value), "code"))
        for title, value in (("in", input_), ("out", output))
        if value is not None
    ]
    return element("li", element("details", *parts, class_="call"))


def _brief(value: JsonValue) -> str:
    if value is None:
        return ""
    shown = value if isinstance(value, str) else compact_json(value)
    return shown if len(shown) <= _MAX_BRIEF_CHARS else f"{shown[:_MAX_BRIEF_CHARS]}…"


def _value(value: JsonValue) -> str:
    return value if isinstance(value, str) else pretty_json(value)


def _facts(detail: RowDetail, changes: FileChanges | None) -> Html:
    result, origin = detail.result, detail.result.origin
    tokens = usage_text(result.target_usage).removeprefix("-")
    estimated = " (estimated)" if result.is_target_estimated else ""
    facts = {
        "file": source_of(result.file, result.line, result.part) if result.file else "",
        "read from": source_of(origin.file, origin.line, origin.part)
        if origin is not None and origin.file != result.file
        else "",
        "trace": origin.trace_id if origin is not None else "",
        "span": origin.span_id if origin is not None else "",
        "took": "" if result.duration_ms is None else seconds_text(result.duration_ms / 1000),
        "cost": "" if result.target_cost_usd is None else f"{money_text(result.target_cost_usd)}{estimated}",
        "judges' cost": "" if result.judge_cost_usd is None else money_text(result.judge_cost_usd),
        "tokens": f"{tokens}{estimated}" if tokens else "",
        "tags": ", ".join(result.tags),
        "metadata": pretty_json(result.metadata) if result.metadata else "",
        "calls" if detail.answer and detail.answer.turns else "attempts": _attempts(detail),
        "workspace": (changes.folder if changes is not None else None) or "",
        "logs": ", ".join(detail.answer.log_paths) if detail.answer else "",
        "notes": "\n".join(detail.answer.notes) if detail.answer else "",
    }
    known = [
        element("div", element("dt", name), element("dd", value, class_="id" if name in ("trace", "span") else None))
        for name, value in facts.items()
        if value
    ]
    return element("dl", *known, class_="facts")


def _attempts(detail: RowDetail) -> str:
    calls = detail.answer.calls if detail.answer else ()
    return ", ".join(call.kind for call in calls) if len(calls) > 1 else ""

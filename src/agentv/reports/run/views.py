"""A stored result as text, with all its data."""

import shlex
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentv.reports.run.file_changes import ChangesText, FileChanges
from agentv.reports.run.row_text import PLAIN_LABELS, origin_text, row_score
from agentv.reports.run.transcript import transcript_text
from agentv.reports.text.amounts import count_text, money_text, percent_text, score_text, seconds_text, tokens_text
from agentv.reports.text.printable import one_line, printable
from agentv.reports.text.signs import UNICODE, Paint, Signs, state_colour, without_colour
from agentv.reports.text.width import display_width, wrap, wrap_lines
from agentv.scoring.counting.matrix import PlanOrder
from agentv.scoring.results.aggregation import TURN, row_state
from agentv.scoring.results.turns import turn_name
from agentv.types.evaluation import EvaluationResult, EvaluatorResult
from agentv.types.failures import Failure
from agentv.types.messages import Message, TraceEvent
from agentv.types.records.answer import Answer, Partial, Rerun, ResultKey
from agentv.types.records.label import NO_SCORE, Label
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord

_STATES = ("pass", "borderline", "fail", "error", "skipped")
RERUN_TEXTS: Mapping[Rerun, str] = {
    "failed": "retry --failed",
    "case": "retry --case",
    "fresh": "changed target",
    "confirm": "to confirm a regression",
}
"""What asked for a further answer of a slot."""
PARTIAL_ANSWER = "partial answer (before the failure, not scored)"
PARTIAL_TRANSCRIPT = "partial transcript (before the failure)"


def counts_text(counts: Mapping[str, int]) -> str:
    """Return `12 results: 9 pass, 2 fail, 1 error`."""
    states = ", ".join(f"{counts[state]:,} {state}" for state in _STATES if counts.get(state))
    total = count_text(sum(counts.values()), "result")
    return f"{total}: {states}" if states else total


def rate_text(counts: Mapping[str, int]) -> str:
    """Return `67.5 % of 40, 2 errors`: the pass rate of the judged results, and how many others there are."""
    judged = sum(counts.get(state, 0) for state in ("pass", "borderline", "fail"))
    rate = f"{percent_text(counts.get('pass', 0) / judged)} of {judged:,}" if judged else ""
    errors = count_text(counts["error"], "error") if counts.get("error") else ""
    skipped = f"{counts['skipped']:,} skipped" if counts.get("skipped") else ""
    return ", ".join(filter(None, (rate, errors, skipped))) or "no results"


def partial_of(result: CaseResult, answer: Answer | None) -> Partial | None:
    """Return the partial answer of a failed call: that of `answer`, which includes messages, else that of `result`."""
    return (None if answer is None else answer.partial) or result.partial


class CaseView(Struct, frozen=True):
    """A result with its case, answer and labels, as far as they are stored, and the layout of the text."""

    result: CaseResult
    case: CaseRecord | None = None
    answer: Answer | None = None
    labels: Sequence[Label] = ()
    width: int | None = 80
    """None: nothing is wrapped."""
    signs: Signs = UNICODE
    paint: Paint = without_colour
    is_full: bool = False
    """True if long outputs of tools and long diffs are not cut."""
    rerun: int = 0
    """The number of a re-run of the slot, from 1; 0 for its first answer."""
    after: "CaseView | None" = None
    """The view above, whose question, expectation and answer are not repeated."""
    others: "tuple[CaseView, ...]" = ()
    """Further trials with the same answer, scores and steps."""

    def render(self) -> str:
        """Return the text, ending with a newline. Every line of untrusted text is behind a gutter."""
        body = self._body()
        is_same = self.after is not None and self._has_answer_of(self.after) and body == self._like(self.after)._body()  # noqa: SLF001 - the same class
        same = ["  answer, scores and steps: the same as above", *(f"  {fact}" for fact in self._facts_of_trials())]
        blocks = [
            [*self._head(), *self._trials(), *(same if is_same else [])],
            *(self._section(title, text) for title, text in self._texts() if not (is_same and title == "answer")),
            *([] if is_same else body),
            self._section("human labels", "\n".join(map(label_text, self.labels))),
            [] if is_same else self._facts_of_trials(),
        ]
        return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"

    def _body(self) -> list[list[str]]:
        """Return error, scores, transcript and changes."""
        return [
            self._error("error", self.result.error),
            *self._partial(),
            *(list(self._evaluator(each, "")) for each in self.result.evaluator_results),
            *self._transcript(),
            *self._changes(),
        ]

    def _has_answer_of(self, other: "CaseView") -> bool:
        one, two = self.result, other.result
        return (one.slot.suite, one.eval_id, one.candidate_answer) == (
            two.slot.suite,
            two.eval_id,
            two.candidate_answer,
        )

    def _like(self, other: "CaseView") -> "CaseView":
        """Return a view in the layout of this one."""
        return replace(other, width=self.width, signs=self.signs, paint=self.paint, is_full=self.is_full)

    def _trials(self) -> Iterator[str]:
        """Yield which trials have this answer, if there are several."""
        if self.others:
            *first, last = (str(each.result.slot.trial + 1) for each in (self, *self.others))
            outcome = "gave this answer" if self.result.error is None else "failed like this"
            yield f"  trials {', '.join(first)} and {last} {outcome}"

    def _facts_of_trials(self) -> list[str]:
        if not self.others:
            return self._facts()
        views = (self, *self.others)
        return [f"trial {each.result.slot.trial + 1}: {', '.join(each._facts())}" for each in views if each._facts()]  # noqa: SLF001 - the same class

    def outcome_key(self) -> Hashable:
        """Return what two trials of a case have in common that gave the same answer with the same scores and steps."""
        row = self.result
        of_rerun = self.rerun if row.rerun is not None else None
        number = row.slot.trial if of_rerun is not None or self.labels else None
        name = (row.slot.suite, row.eval_id, row.slot.target, row.prompt, number, of_rerun)
        answer = (row_state(row), row.score, row.candidate_answer, row.answered_by)
        return name, answer, tuple(map(tuple, self._body()))

    def _head(self) -> list[str]:
        """Return the line above a result, wrapped between words."""
        result, state = self.result, row_state(self.result)
        score = f", score {row_score(result)}" if row_score(result) else ""
        place = f"  ({one_line(result.file)}:{result.line})" if result.file else ""
        mark = self.paint(self.signs.marks[state], state_colour(state))
        fallback = ""
        if result.answered_by is not None:
            fallback = f" (its fallback {one_line(result.answered_by)} answered)"
        number = f"re-run {self.rerun}" if self.rerun else "a re-run"
        rerun = "" if result.rerun is None else f", {number} ({RERUN_TEXTS[result.rerun]}) that does not count"
        label = PLAIN_LABELS.case(result) if self.others else PLAIN_LABELS.label(result)
        text = f"{label}{fallback}: {state}{score}{rerun}{place}"
        is_long = self.width is not None and display_width(text) > self.width - 2
        first, *others = wrap(text, max(self.width - 2, 1)) if is_long and self.width is not None else [text]
        return [f"{mark} {first}", *(f"  {line}" for line in others)]

    def _texts(self) -> Iterator[tuple[str, str]]:
        turns, above = self._turns(), self.after
        if self.case is not None and (above is None or _texts_of(self.case) != _texts_of(above.case)):
            if turns:
                yield "messages before the first turn", self._transcript_text(self.case.input_messages)
            else:
                yield "question", self.case.question
            yield "expected outcome", self.case.expected_outcome
            yield "reference answer", self.case.reference_answer or ""
        if turns:
            return
        answer = self.result.candidate_answer or ("(empty)" if self.result.empty_answer else "")
        is_same = answer and above is not None and self._has_answer_of(above)
        yield "answer", "(the same as above)" if is_same else answer
        yield "reasoning of the model", (self.answer.reasoning if self.answer else None) or ""

    def _turns(self) -> Mapping[str, str]:
        """Return the transcript of each turn of a conversation, by the name of the turn's result."""
        turns = self.answer.messages_by_turn if self.answer else ()
        return {turn_name(number): self._transcript_text(messages) for number, messages in enumerate(turns, start=1)}

    def _section(self, title: str, text: str) -> list[str]:
        return [self.paint(title, "bold"), *self._behind_gutter(text, "")] if text else []

    def _behind_gutter(self, text: str, indent: str) -> list[str]:
        text_width = None if self.width is None else self.width - len(indent) - 2
        return [f"{indent}{self.signs.gutter} {line}".rstrip() for line in wrap_lines(printable(text), text_width)]

    def _error(self, title: str, failure: Failure | None) -> list[str]:
        if failure is None:
            return []
        status = f", HTTP {failure.http_status}" if failure.http_status is not None else ""
        return self._section(f"{title} ({failure.kind} at {failure.stage}{status})", failure.message)

    def _partial(self) -> Iterator[list[str]]:
        """Yield the text, reasoning and tool calls of a target before it failed."""
        partial = partial_of(self.result, self.answer)
        if partial is None:
            return
        yield self._section("reasoning of the model before the failure", partial.reasoning or "")
        yield self._section(PARTIAL_ANSWER, partial.text)
        yield self._section(
            PARTIAL_TRANSCRIPT, self._transcript_text(partial.output_messages or (), partial.trace or ())
        )

    def _evaluator(self, result: EvaluatorResult, indent: str) -> Iterator[str]:
        is_judged = result.status not in ("error", "skipped")
        parts = [
            f"{self.paint(one_line(result.name), 'bold')} ({one_line(result.type)})",
            score_text(result.score) if is_judged else "",
            result.verdict if is_judged and result.verdict else "",
            result.status if result.status != "scored" else "",
            f"weight {result.weight:g}" if result.weight != 1 else "",
            "required" if result.required else "",
        ]
        yield indent + "  ".join(part for part in parts if part)
        if result.type == TURN:
            transcript = self._turns().get(result.name)
            if transcript:
                yield from self._behind_gutter(transcript, indent)
            if result.evaluator_results:
                for member in result.evaluator_results:
                    yield from self._evaluator(member, f"{indent}  ")
                return
        if result.error is not None:
            yield from self._behind_gutter(f"error ({result.error.kind}): {result.error.message}", indent)
        lines = [f"+ {one_line(hit)}" for hit in result.hits] + [f"- {one_line(miss)}" for miss in result.misses]
        if len(result.results) > 1:
            lines.extend(one_line(_criterion_text(criterion)) for criterion in result.results)
        if lines:
            yield from self._behind_gutter("\n".join(lines), indent)
        if result.reasoning:
            yield from self._behind_gutter(result.reasoning, indent)
        for member in result.evaluator_results:
            yield from self._evaluator(member, f"{indent}  ")

    def _messages(self) -> Sequence[Message]:
        return (self.answer.output_messages if self.answer else self.result.output_messages) or ()

    def _trace(self) -> Sequence[TraceEvent]:
        return (self.answer.trace if self.answer else self.result.trace) or ()

    def _transcript(self) -> Iterator[list[str]]:
        if not self._turns():
            yield self._section("transcript", self._transcript_text(self._messages(), self._trace()))

    def _transcript_text(self, messages: Sequence[Message], trace: Sequence[TraceEvent] = ()) -> str:
        return transcript_text(messages, trace, is_full=self.is_full)

    def _changes(self) -> Iterator[list[str]]:
        """Yield the changed files and the diff, if the answer was made in a workspace."""
        changes = FileChanges.of(self.answer)
        if changes is None:
            return
        command = shlex.join(("agentv", "show", self.result.run_id, self.result.eval_id, "-v"))
        text = ChangesText(self.width, self.signs, self.paint, is_full=self.is_full, rest_command=one_line(command))
        yield list(text.files(changes))
        yield list(text.diff(changes))

    def _facts(self) -> list[str]:
        result = self.result
        facts = [f"took {seconds_text(result.duration_ms / 1000)}"] if result.duration_ms is not None else []
        origin = result.origin
        if origin is not None and (origin.trace_id or origin.file != result.file):
            facts.append(f"from {origin_text(origin)}")
        for name, usage, cost, is_estimated in (
            ("target", result.target_usage, result.target_cost_usd, result.is_target_estimated),
            ("judges", result.judge_usage, result.judge_cost_usd, result.is_judge_estimated),
        ):
            if usage is not None or cost is not None:
                tokens = "-" if usage is None else tokens_text(usage.total or usage.input + usage.output)
                facts.append(
                    f"{name}: {tokens} tokens, cost {money_text(cost)}{' (estimated)' if is_estimated else ''}"
                )
        if self.answer is not None and len(self.answer.calls) > 1:
            name = "calls" if self.answer.turns else "attempts"
            facts.append(f"{name}: {', '.join(call.kind for call in self.answer.calls)}")
        changes = FileChanges.of(self.answer)
        if changes is not None and changes.folder is not None:
            facts.append(f"workspace: {one_line(changes.folder)}")
        facts += [f"log: {one_line(path)}" for path in (self.answer.log_paths if self.answer else ())]
        facts += [f"note: {one_line(note)}" for note in (self.answer.notes if self.answer else ())]
        return facts


def _texts_of(case: CaseRecord | None) -> tuple[object, ...]:
    """Return the texts of a case that its views show."""
    if case is None:
        return ()
    return case.suite, case.eval_id, case.question, case.input_messages, case.expected_outcome, case.reference_answer


def views_in_order(views: Iterable[CaseView], order: PlanOrder) -> Iterator[CaseView]:
    """Yield views by case, prompt, target and trial; re-runs are numbered and follow their first answer."""
    cases: dict[tuple[str, str], list[CaseView]] = {}
    for view in views:
        cases.setdefault((view.result.slot.suite, view.result.eval_id), []).append(view)

    def place(view: CaseView) -> tuple[object, ...]:
        slot = view.result.slot
        return order.cell_index((view.result.prompt, slot.target)), slot.trial, view.result.rerun is not None

    reruns = Counter[ResultKey]()
    for of_case in cases.values():
        for view in sorted(of_case, key=place):
            reruns[view.result.slot] += view.result.rerun is not None
            yield view if view.result.rerun is None else replace(view, rerun=reruns[view.result.slot])


def fold_trials(views: Iterable[CaseView]) -> Iterator[CaseView]:
    """Yield views, trials of a case with the same answer, scores and steps as one; each knows the view above."""
    groups: dict[Hashable, list[CaseView]] = {}
    for view in views:
        groups.setdefault(view.outcome_key(), []).append(view)
    above: CaseView | None = None
    for first, *others in groups.values():
        above = replace(first, others=tuple(others), after=above and replace(above, after=None))
        yield above


def _criterion_text(result: EvaluationResult) -> str:
    if result.error is not None:
        return f"{result.criterion_name}: error: {result.error}"
    score = "" if result.score is None else f" = {result.score}"
    return f"{result.criterion_name}{score}" + (f": {result.reasoning}" if result.reasoning else "")


def label_text(label: Label) -> str:
    """Return `anna: tone = pass: kind; too short [length]`: score or verdict, reason, note and category."""
    said = label.verdict or (label.score if label.score != NO_SCORE else "skipped")
    comment = "; ".join(filter(None, (label.reasoning, label.note)))
    category = f" [{label.category}]" if label.category else ""
    golden = " (golden)" if label.golden else ""
    text = f"{label.annotator}: {label.criterion} = {said}{golden}{f': {comment}' if comment else ''}{category}"
    return one_line(text)


class RowDetail(Struct, frozen=True):
    """A result with its case, answer and labels, as far as they are stored."""

    result: CaseResult
    case: CaseRecord | None = None
    answer: Answer | None = None
    labels: Sequence[Label] = ()

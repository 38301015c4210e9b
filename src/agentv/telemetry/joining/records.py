"""Records of Langfuse and LangSmith, which are not spans: the root of each trace, with what its steps did."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import asdict, replace

from agentv.messages.logs.services import JOINED, read_langsmith
from agentv.messages.logs.steps import TraceRecord, trace_records
from agentv.messages.shapes.usages import read_usage
from agentv.telemetry.contents.facts import Facts
from agentv.telemetry.conventions.reading import read_facts
from agentv.telemetry.joining.merging import merged_spans
from agentv.telemetry.joining.report import JoinReport
from agentv.telemetry.joining.shelf import SpanShelf
from agentv.telemetry.joining.traces import Invocation, Trace, has_content, usage_of
from agentv.telemetry.otlp.spans import Span, nanoseconds
from agentv.telemetry.otlp.values import first
from agentv.types.json_value import JsonObject, JsonValue, object_of
from agentv.types.messages import Message
from agentv.types.messages_json import compact_json, messages_to_json
from agentv.types.usage import Usage, total_usage

_MOST_OPEN = 10_000


class JoinedRecord(Struct, frozen=True):
    """A record with its place: a root with what its steps did under `agentv`, or a step without a root."""

    file: str
    line: int
    value: JsonObject


class RecordJoiner:
    """Collects records, and yields the roots of their traces; values that are no such records are not taken.

    In an endless stream, a root has the steps that came before it.
    """

    def __init__(self, report: JoinReport, *, is_endless: bool = False) -> None:
        self._report = report
        self._shelf = SpanShelf()
        self._is_endless = is_endless
        self._due: list[str] = []
        """The traces of a stream whose root has come."""
        self._open: OrderedDict[str, _Call] = OrderedDict()
        """Calls of models, each alone in its trace, that ask for tools, by the id of the first tool call."""

    def take(self, value: JsonObject, *, file: str, line: int) -> bool:
        """Add a record with the steps that it lists; return False for a value that is not a record of a trace."""
        records = trace_records(value)
        for record in records:
            self._shelf.add(_shelved(record, file, line))
        if self._is_endless:
            self._due += [record.trace_id for record in records if not record.parent_id]
        return bool(records)

    def ready(self) -> Iterator[JoinedRecord]:
        """Yield the records of the traces of a stream whose root has come."""
        due, self._due = dict.fromkeys(self._due), []
        return self._joined(due)

    def rest(self) -> Iterator[JoinedRecord]:
        """Yield the records of all other traces, in order of their start; then calls that nothing continued."""
        yield from self._joined(self._shelf.all())
        while self._open:
            yield self._open.popitem(last=False)[1].joined()

    def close(self) -> None:
        """Forget all records."""
        self._shelf.close()

    def _joined(self, traces: Iterable[str]) -> Iterator[JoinedRecord]:
        for trace_id in traces:
            kept = {span.span_id: span for span in self._shelf.spans(trace_id)}  # of two copies, the later one
            self._shelf.drop(trace_id)
            roots, orphans = _roots_of(trace_id, kept)
            yield from map(_as_record, orphans)
            for root, steps in roots:
                record = _with_steps(root, steps, self._report.problems) if steps else _as_record(root)
                facts = read_facts(_as_span(_only_call(root, steps))) or Facts()
                yield from self._call(_Call(record, facts)) if facts.kind == "model" else (record,)

    def _call(self, call: "_Call") -> Iterator[JoinedRecord]:
        """Yield a call of a model that is alone in its trace; one that asks for tools only if nothing continues it."""
        tools = [each.id for message in call.facts.output[-1:] for each in message.tool_calls if each.id]
        before = [each.id for message in call.facts.input for each in message.tool_calls if each.id]
        earlier = [self._open.pop(tool_id).facts for tool_id in dict.fromkeys(before) if tool_id in self._open]
        if earlier:
            call = _Call(call.record, _sum_of([*earlier, call.facts]), is_continued=True)
        if not tools or has_content(call.facts.output[-1]):
            yield call.joined()
            return
        self._open[tools[0]] = call
        if len(self._open) > _MOST_OPEN:
            yield self._open.popitem(last=False)[1].joined()


class _Call(Struct, frozen=True):
    """A call of a model that is alone in its trace; its facts have the tokens of the calls that it continues, too."""

    record: JoinedRecord
    facts: Facts
    is_continued: bool = False

    def joined(self) -> JoinedRecord:
        """Return the record, with the tokens of the calls that it continues."""
        if not self.is_continued:
            return self.record
        said = {**object_of(self.record.value.get(JOINED)), **_amounts(self.facts.usage, self.facts.cost_usd)}
        return replace(self.record, value={**self.record.value, JOINED: said})


def _sum_of(calls: Sequence[Facts]) -> Facts:
    """Return the facts of the last call with the tokens and the cost of all, unknown if those of one call are."""
    usages, costs = [each.usage for each in calls], [each.cost_usd for each in calls]
    return replace(
        calls[-1],
        usage=None if None in usages else total_usage(usages),
        cost_usd=None if None in costs else sum(cost or 0.0 for cost in costs),
    )


def _only_call(root: Span, steps: Sequence[Span]) -> Span:
    """Return the only observation of a trace of Langfuse that says no more than it; else the root."""
    is_trace = root.scope == "Langfuse" and root.span_id == root.trace_id
    if is_trace and len(steps) == 1 and _inner(root.attributes).get("output") == steps[0].attributes.get("output"):
        return steps[0]
    return root


def _inner(record: JsonObject) -> JsonObject:
    """Return a record, or the trace in a downloaded one."""
    return object_of(record.get("trace")) or record


def _as_record(root: Span, said: Mapping[str, JsonValue] | None = None) -> JoinedRecord:
    return JoinedRecord(root.file, root.line, {**root.attributes, JOINED: {**said}} if said else root.attributes)


def _amounts(usage: Usage | None, cost_usd: float | None) -> dict[str, JsonValue]:
    amounts: dict[str, JsonValue] = {"usage": None if usage is None else asdict(usage), "cost_usd": cost_usd}
    return {name: value for name, value in amounts.items() if value is not None}


def _shelved(record: TraceRecord, file: str, line: int) -> Span:
    """Return a record as it is kept: a span whose only attributes are those of the record."""
    inner = _inner(record.value)
    start = nanoseconds(first(inner, "startTime", "start_time", "timestamp"))
    return Span(
        trace_id=record.trace_id,
        span_id=record.id,
        parent_id=record.parent_id,
        name=str(inner.get("name") or ""),
        start_ns=start,
        end_ns=max(start, nanoseconds(first(inner, "endTime", "end_time"))),
        attributes=record.value,
        scope=record.program,
        file=file,
        line=line,
    )


def _roots_of(trace_id: str, kept: Mapping[str, Span]) -> tuple[list[tuple[Span, list[Span]]], list[Span]]:
    """Return the roots of a trace, each with its steps, and the steps that belong to none of them."""
    trace = kept.get(trace_id)
    if trace is not None and trace.scope == "Langfuse":
        kept = _below_trace(trace, kept)
    members: dict[str, list[Span]] = {span.span_id: [] for span in kept.values() if not span.parent_id}
    orphans: list[Span] = []
    for span in kept.values():
        root_id = _root_of(span, kept)
        if root_id not in members and len(members) == 1:
            (root_id,) = members
            span = replace(span, parent_id=root_id)  # noqa: PLW2901 - its parent was not exported
        if span.span_id != root_id:
            members.get(root_id, orphans).append(span)
        elif span.parent_id:
            orphans.append(span)
    return [(kept[root_id], steps) for root_id, steps in members.items()], orphans


def _below_trace(trace: Span, kept: Mapping[str, Span]) -> dict[str, Span]:
    """Return records with the outermost observations below Langfuse's trace, which has what the only one of them says.

    Newer servers leave the input and the output of a trace empty.
    """
    outer = [span for span in kept.values() if span.parent_id in ("", trace.span_id) and span is not trace]
    inner = _inner(trace.attributes)
    if len(outer) == 1:
        lacking = {name: outer[0].attributes.get(name) for name in ("input", "output") if not inner.get(name)}
        inner = {**inner, **lacking}
    value = {**trace.attributes, "trace": inner} if "trace" in trace.attributes else inner
    below = {span.span_id: replace(span, parent_id=trace.span_id) for span in outer}
    return {**kept, **below, trace.span_id: replace(trace, attributes=value)}


def _root_of(span: Span, kept: Mapping[str, Span]) -> str:
    """Return the id of the outermost record above a record, or its own; that of a parent that is missing."""
    seen: set[str] = set()
    while span.parent_id and span.span_id not in seen:
        seen.add(span.span_id)
        above = kept.get(span.parent_id)
        if above is None:
            return span.parent_id
        span = above
    return span.span_id


def _with_steps(root: Span, steps: Sequence[Span], problems: Counter[str]) -> JoinedRecord:
    """Return a root with the messages between its question and its answer, and with the tokens of its steps.

    What cannot be read is counted in `problems`.
    """
    spans = merged_spans([_as_span(root, is_root=True), *map(_as_span, steps)])
    found = [each for each in Trace(spans).invocations() if each.root.span_id == root.span_id]
    problems.update(each.problem for each in found if each.problem is not None)
    # LangSmith's server counts the tokens of all steps.
    counted = read_langsmith(root.attributes).fields if root.scope == "LangSmith" else {}
    said = {name: value for name, value in _amounts(*usage_of(found)).items() if name not in counted}
    if between := [message for each in found for message in _between(each)]:
        said["steps"] = messages_to_json(between)
    models = {call.facts.model for each in found for call in each.calls if call.facts and call.facts.model}
    if len(models) == 1:
        said["model"] = models.pop()
    return _as_record(root, said)


def _between(invocation: Invocation) -> Sequence[Message]:
    """Return the calls of tools and their results after the question, without the answer."""
    messages = invocation.messages[invocation.input_length :]
    if messages and messages[-1].role == "assistant" and not messages[-1].tool_calls:
        messages = messages[:-1]
    return messages if any(message.tool_calls for message in messages) else ()


def _as_span(record: Span, *, is_root: bool = False) -> Span:
    """Return a record as a span with the attributes of its program's SDK; a root is an agent, whatever its type."""
    attributes, error = _READERS[record.scope](record.attributes, is_root=is_root)
    return replace(record, attributes=attributes, error=error)


def _of_langfuse(value: JsonObject, *, is_root: bool) -> tuple[JsonObject, str | None]:
    inner = _inner(value)
    level, message = inner.get("level"), first(inner, "statusMessage", "status_message")
    return {
        "langfuse.observation.type": "agent" if is_root else str(inner.get("type")).lower(),
        "langfuse.observation.input": inner.get("input"),
        "langfuse.observation.output": inner.get("output"),
        "langfuse.observation.usage_details": first(inner, "usageDetails", "usage_details", "usage"),
        "langfuse.observation.cost_details": first(inner, "costDetails", "cost_details"),
        "langfuse.observation.model.name": first(inner, "providedModelName", "provided_model_name", "model"),
    }, str(message or "level ERROR") if level == "ERROR" else None


_OPERATIONS = {"llm": "chat", "tool": "execute_tool"}


def _of_langsmith(value: JsonObject, *, is_root: bool) -> tuple[JsonObject, str | None]:
    kind, error = str(value.get("run_type")), value.get("error")
    facts = {name: found.value for name, found in read_langsmith(value).fields.items()} if kind == "llm" else {}
    usage = read_usage(facts.get("usage"))
    return {
        "langsmith.span.kind": kind,
        "gen_ai.operation.name": "invoke_agent" if is_root else _OPERATIONS.get(kind, "chain"),
        "gen_ai.tool.name": value.get("name"),
        "gen_ai.prompt": compact_json(_alone(value.get("inputs"), "input" if kind == "tool" else "")),
        "gen_ai.completion": compact_json(_alone(value.get("outputs"), "output" if kind == "tool" else "")),
        "gen_ai.request.model": facts.get("model"),
        "gen_ai.usage.cost": facts.get("cost_usd"),
        "gen_ai.usage.input_tokens": None if usage is None else usage.input,
        "gen_ai.usage.output_tokens": None if usage is None else usage.output,
    }, str(error) if error else None


def _alone(value: JsonValue, name: str) -> JsonValue:
    """Return the value under the only key of an object, if it has this name; any other value as it is."""
    return value[name] if isinstance(value, Mapping) and value.keys() == {name} else value


_READERS = {"Langfuse": _of_langfuse, "LangSmith": _of_langsmith}

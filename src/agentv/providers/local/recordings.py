"""Recorded answers in JSON lines: index their positions, and parse a line into a response."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentv.providers.apis.replies import last_answer, parse_answer
from agentv.types.errors import ProviderError
from agentv.types.failures import FAILURE_KINDS, Failure, FailureKind
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.message_shapes.usages import read_usage
from agentv.types.messages_json import messages_from_json, trace_from_json
from agentv.types.provider import ProviderResponse

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLOB = re.compile(r"sha256:[0-9a-f]{64}")


class _Key(msgspec.Struct):
    eval_id: str | None = None
    target: str | None = None
    trial: int | None = None


class _Head(msgspec.Struct):
    """The key of a row: in answers (`slot`), results (top level) and transcripts (`id`)."""

    id: str | None = None
    eval_id: str | None = None
    target: str | None = None
    trial: int | None = None
    generation: int = 0
    slot: _Key | None = None

    @property
    def key(self) -> tuple[str | None, str | None, int | None]:
        """Target, case id and trial."""
        if self.slot is not None:
            return self.slot.target, self.slot.eval_id, self.slot.trial
        return self.target, self.eval_id or self.id, self.trial


class Recording(Struct, frozen=True):
    """One file of recorded answers. `places` maps case id and trial (None: any trial) to byte offsets."""

    path: Path
    places: Mapping[tuple[str, int | None], int]

    def find(self, case_id: str, trial: int) -> JsonObject:
        """Return the row of a case. Raises ProviderError with kind `target_missing` if there is none."""
        place = self.places.get((case_id, trial), self.places.get((case_id, None)))
        if place is None:
            trials = sorted(known for name, known in self.places if name == case_id and known is not None)
            has = f" in trial {trial}; it has trials {', '.join(map(str, trials))}" if trials else ""
            message = f"{self.path} has no answer for case {case_id!r}{has}"
            raise ProviderError(Failure("target_missing", message))
        try:
            with self.path.open("rb") as file:
                file.seek(place)
                row: JsonObject = msgspec.json.decode(file.readline().removeprefix(BYTE_ORDER_MARK))
            return cast(JsonObject, _with_blobs(row, self.path.parent / "blobs"))
        except (OSError, msgspec.DecodeError) as error:
            message = f"{self.path}: the answer for case {case_id!r} cannot be read: {error}"
            raise ProviderError(Failure("malformed_reply", message)) from None


def index_recording(path: Path, target: str) -> Recording:
    """Index the positions of the answers; of several for a case, the last line of the latest generation counts.

    If several targets were recorded, only the answers of `target` are used. Raises ProviderError for an invalid line;
    an incomplete last line is skipped.
    """
    heads = msgspec.json.Decoder(_Head)
    places: dict[str | None, dict[tuple[str, int | None], tuple[int, int]]] = {}
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                head = heads.decode(line.removeprefix(BYTE_ORDER_MARK)) if line.strip() else None
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                if line.endswith(b"\n"):
                    raise ProviderError(Failure("config_error", f"{path}:{number}: not a valid row: {error}")) from None
                head = None
            target_name, case_id, trial = head.key if head is not None else (None, None, None)
            if head is not None and case_id is not None:
                known = places.setdefault(target_name, {})
                if head.generation >= known.get((case_id, trial), (0, 0))[0]:
                    known[case_id, trial] = (head.generation, offset)
            offset += len(line)
    return Recording(path, {key: place for key, (_, place) in _of_one_target(places, path, target).items()})


def _of_one_target(
    places: Mapping[str | None, dict[tuple[str, int | None], tuple[int, int]]], path: Path, target: str
) -> Mapping[tuple[str, int | None], tuple[int, int]]:
    if target in places or len(places) < 2:  # noqa: PLR2004 - nothing to choose between
        return places.get(target) or next(iter(places.values()), {})
    known = ", ".join(sorted(str(name) for name in places))
    message = f"{path} has answers of several targets: {known}; give this target the name of the one to replay"
    raise ProviderError(Failure("config_error", message))


def parse_recorded(row: JsonObject) -> ProviderResponse:
    """Return the answer in a row. Raises ProviderError if the row records a failure of the target."""
    error = row.get("error")
    if isinstance(error, Mapping) and error.get("stage") != "evaluator":
        kind = error.get("kind")
        known = cast(FailureKind, kind) if kind in FAILURE_KINDS else "target_missing"
        raise ProviderError(Failure(known, f"recorded: {error.get('message') or kind or error}"))
    recorded = {"output_messages": row.get("output_messages", row.get("messages")), "trace": row.get("trace")}
    answer = _own_answer(recorded) if _is_stored(row) else parse_answer({**recorded, **_beside(row)})
    text = row.get("text", row.get("candidate_answer"))
    if text is None and not answer.output_messages:
        keys = ", ".join(map(repr, row))
        message = f"the recorded line has neither text, output_messages nor candidate_answer; its keys: {keys}"
        raise ProviderError(Failure("unexpected_shape", message))
    if not isinstance(text, str | None):
        raise ProviderError(Failure("malformed_reply", f"the recorded answer is not a string: {str(text)[:200]}"))
    usage_by = row.get("usage_by")
    usage = usage_by.get("target") if isinstance(usage_by, Mapping) else row.get("usage")
    finish_reason = row.get("finish_reason")
    reasoning = row.get("reasoning") if "text" in row else None  # a result's is that of its evaluators
    return replace(
        answer,
        text=text or answer.text,
        usage=read_usage(usage),
        cost_usd=0.0,  # a replay costs nothing
        finish_reason=finish_reason if isinstance(finish_reason, str) else None,
        reasoning=reasoning if isinstance(reasoning, str) else None,
    )


def _own_answer(recorded: JsonObject) -> ProviderResponse:
    """Return the messages and the trace that agentv stored itself."""
    try:
        messages = messages_from_json(recorded["output_messages"])
        return ProviderResponse(
            last_answer(messages or ()) or "", output_messages=messages, trace=trace_from_json(recorded["trace"])
        )
    except ValueError as error:
        raise ProviderError(Failure("malformed_reply", f"the recorded answer cannot be read: {error}")) from None


def _is_stored(row: JsonObject) -> bool:
    """Return True for a line of a run folder, whose messages are written as agentv stores them."""
    return str(row.get("schema")).startswith("agentv-")


def _beside(row: JsonObject) -> JsonObject:
    """Return the tool calls beside a recorded text."""
    return {key: row[key] for key in ("text", "tool_calls", "toolCalls") if key in row}


def _with_blobs(value: JsonValue, folder: Path) -> JsonValue:
    """Return a row with its large values, which a stored run saves in separate files, restored."""
    if isinstance(value, Mapping):
        reference = value.get("$blob")
        if isinstance(reference, str) and _BLOB.fullmatch(reference):
            content = (folder / reference.replace(":", "-")).read_bytes()
            is_json = str(value.get("media_type")).startswith("application/json")
            return cast(JsonValue, msgspec.json.decode(content)) if is_json else content.decode(errors="replace")
        return {key: _with_blobs(item, folder) for key, item in value.items()}
    return [_with_blobs(item, folder) for item in value] if isinstance(value, list) else value

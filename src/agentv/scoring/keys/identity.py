"""Keys of answers and scores for reuse: computed from contents, never from positions.

Position, file name and dataset are in no key, so that reordering, renaming a file or adding cases leaves earlier
results reusable (docs/reference/run-folder.md).
"""

import json
import re
import sys
import unicodedata
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import blake2b, sha256
from typing import Literal, cast

import msgspec
from msgspec import Struct, structs

from agentv.scoring.keys.notes import SettingsClass, without_notes
from agentv.types.cases import CaseTurn, EvalCase, EvaluatorConfig, EvaluatorLike, RubricItem, TurnRules
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import FilePart, Message
from agentv.types.messages_json import content_to_json, message_to_json
from agentv.types.records.run import CaseRecord
from agentv.types.scales import EvaluationCriteria
from agentv.types.structs import struct_fields
from agentv.types.targets import ResolvedTarget

KEY_PREFIX = "v1:"


def _plain(value: object) -> object:
    if isinstance(value, Message):
        return message_to_json(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    # A function or object given from Python is identified by its name only.
    return getattr(value, "__qualname__", type(value).__qualname__)


# Created once: with these options, `json.dumps` creates an encoder for every call (bench/).
_encode_texts = msgspec.json.Encoder(order="sorted").encode
_TEXT = json.encoder.encode_basestring
_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_plain)


def canonical_json(value: object) -> str:
    """Return JSON with sorted keys and no blanks: equal values give equal text."""
    return _ENCODER.encode(value)


def digest(value: object) -> str:
    """Return the SHA-256 of `value`'s canonical JSON, in hex."""
    return sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def digest_of_texts(texts: Mapping[str, str], keys: Sequence[tuple[str, str]]) -> str:
    """Return the digest of an object of texts, faster; `keys` are its keys, sorted, each with its JSON."""
    written = ",".join([f"{written_key}:{_TEXT(texts[key])}" for key, written_key in keys])
    return sha256(f"{{{written}}}".encode("utf-8", "surrogatepass")).hexdigest()


def files_of(messages: Iterable[Message]) -> tuple[FilePart, ...]:
    """Return the file parts of the messages, in order."""
    found: list[FilePart] = []
    for message in messages:
        if isinstance(message.content, tuple):
            found += [part for part in message.content if isinstance(part, FilePart)]
    return tuple(found)


class CaseKeys(Struct, frozen=True, gc=False):
    """The keys of a case's input (`question`) and of its expectations, in hex."""

    question: str
    expectation: str


NO_KEYS = CaseKeys("", "")
"""The keys of a case that no run records."""


def keys_of(case: EvalCase, criteria: Sequence[EvaluationCriteria]) -> CaseKeys:
    """Return the keys of a case from which its other keys are derived."""
    return CaseKeys(question_key(case), expectation_key(case, criteria))


def _are_texts(messages: Iterable[Message]) -> bool:
    """Return True if messages have nothing but a role, a name and a text."""
    for each in messages:  # noqa: SIM110 - `all` would make a generator (bench/echo_cases.py)
        if type(each.content) is not str or each.tool_calls or each.metadata is not None:
            return False
    return True


def _digest_of_texts(value: object) -> str:
    """Return `digest(value)` of texts, lists, dicts and messages that are texts, but no numbers.

    msgspec is faster than `json` (bench/) and encodes texts in the same way, but some numbers differently.
    """
    try:
        return sha256(_encode_texts(value)).hexdigest()
    except UnicodeEncodeError:  # lone surrogates
        return digest(value)


def question_key(case: EvalCase) -> str:
    """Return the key of a case's input: id, input messages, contents of files and guidelines."""
    messages = case.input_messages
    if not case.turns and _are_texts(messages):
        return _digest_of_texts({"id": case.id, "messages": messages, "files": ()})
    parts: dict[str, object] = {
        "id": case.id,
        "messages": messages,
        "files": [(part.path, part.sha256) for part in files_of(messages)],
    }
    if case.turns:
        inputs = [turn.input for turn in case.turns]
        parts["turns"] = inputs
        parts["files of turns"] = [(part.path, part.sha256) for part in files_of(inputs)]
        parts["turn rules"] = [case.turn_rules.on_failure, case.turn_rules.window]
        if further := _without(turn_rules_to_json(case.turn_rules), _FIRST_TURN_RULES):
            parts["further turn rules"] = further
    return digest(parts)


def target_key(target: ResolvedTarget) -> str:
    """Return the key of a target: name, provider, settings without secrets."""
    return digest([target.name, target.provider, target.public_settings])


def answer_key(question: str, target: str, trial: int) -> str:
    """Return the key of one answer, from the key of the case's input, the target's key, and the trial."""
    return _key_of_json(f'["{question}","{target}",{trial}]')


def expectation_key(case: EvalCase, criteria: Sequence[EvaluationCriteria]) -> str:
    """Return the key of a case's expectations: outcome, messages, criteria."""
    return _expectation_key(case, [criterion_to_json(each) for each in criteria] if criteria else ())


def stored_expectation_key(case: CaseRecord) -> str:
    """Return the same key as `expectation_key`, for a stored case."""
    return _expectation_key(case, list(case.criteria))


def turn_to_json(turn: CaseTurn, settings_class: SettingsClass | None = None) -> JsonObject:
    """Return a turn as a stored case has it: as in an eval file, without empty keys.

    With `settings_class` the notes are left out, as in keys.
    """
    rubrics: list[JsonValue] = [rubric_to_json(item) for item in turn.rubrics]
    expected = [content_to_json(message.content) for message in turn.expected_messages]
    fields: dict[str, JsonValue] = {
        "input": content_to_json(turn.input.content),
        "expected": expected[0] if expected else None,
        "expected_outcome": turn.expected_outcome,
        "rubrics": rubrics if settings_class is None else without_notes(rubrics, RubricItem),
        "evaluators": [evaluator_to_json(each, settings_class) for each in turn.evaluators],
    }
    return {key: value for key, value in fields.items() if value}


def _without(fields: JsonObject, names: Container[str]) -> JsonObject:
    return {name: value for name, value in fields.items() if name not in names}


_FIRST_TURN_RULES = ("turn_aggregate", "on_turn_failure", "turn_window")
"""Two of them are in every key of a conversation, so that stored answers stay valid; the first changes no answer."""


def turn_rules_to_json(rules: TurnRules) -> dict[str, JsonValue]:
    """Return the rules as keys of `execution`, without those that have their default."""
    values: JsonObject = msgspec.to_builtins(rules)
    fields = struct_fields(TurnRules)
    return {str(each.extra["file_key"]): values[each.name] for each in fields if values[each.name] != each.default}


def rubric_to_json(item: RubricItem, *, always: Container[str] = ("id", "description")) -> JsonObject:
    """Return the fields of a rubric item that are not the default, and those in `always`."""
    given, default = structs.asdict(item), structs.asdict(RubricItem(item.id, item.description))
    return {key: value for key, value in given.items() if key in always or value != default[key]}


def turn_expectation_key(case: EvalCase, turn: CaseTurn) -> str:
    """Return the key of what is expected of the answer to one turn of a case."""
    return digest([turn.expected_outcome or case.expected_outcome, turn.expected_messages])


def _expectation_key(case: EvalCase | CaseRecord, criteria: Sequence[JsonObject]) -> str:
    if type(case.expected_outcome) is str and not (criteria or case.expected_messages):
        return _outcome_key(case.expected_outcome)
    expected = [case.expected_outcome, case.expected_messages, criteria]
    return digest(expected) if criteria or not _are_texts(case.expected_messages) else _digest_of_texts(expected)


@lru_cache(maxsize=64)
def _outcome_key(outcome: str) -> str:
    """Return the key of an expected outcome without messages and criteria, which many cases have in common."""
    return _digest_of_texts([outcome, [], []])


JUDGE_PROMPTS_VERSION = 2
"""The version of agentv's own judge prompts, which is part of the keys of judges' scores.

It is raised with every change of a prompt, so that scores and calibrations of the earlier prompts do not count for the
new ones (tests/evaluators/test_judge_prompts.py).
"""


def score_key(*, answer: str, expectation: str, setup_digest: str) -> str:
    """Return the key of one evaluator's score of one answer.

    `setup_digest` is the digest of its config, of the scripts and prompts that it names, and of the judges it calls.
    """
    return _key_of_json(f'["{answer}","{expectation}","{setup_digest}"]')


def score_keys(answer: str, expectation: str, setup_digests: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of the scores of one answer, by the names of the evaluators."""
    return {
        name: score_key(answer=answer, expectation=expectation, setup_digest=digest)
        for name, digest in setup_digests.items()
    }


def case_key(keys: CaseKeys, evaluators: str) -> str:
    """Return the key of a whole case as planned: input, expectations, and the evaluators' canonical JSON."""
    return _key_of_json(f'["{keys.question}","{keys.expectation}",{evaluators}]')


def _key_of_json(canonical: str) -> str:
    """Return the key of canonical JSON, which the callers format themselves, as keys in hex need no escapes."""
    return KEY_PREFIX + sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


def criterion_to_json(criterion: EvaluationCriteria) -> dict[str, JsonValue]:
    """Return a criterion as JSON, without unset fields."""
    fields = structs.asdict(criterion) | {"labels": list(criterion.labels) or None}
    return {key: value for key, value in fields.items() if value is not None}


def evaluator_to_json(evaluator: EvaluatorLike, settings_class: SettingsClass | None = None) -> dict[str, JsonValue]:
    """Return an evaluator's config as JSON; an object from Python is identified by its kind and class.

    With `settings_class` the notes in its settings are left out, as in keys.
    """
    if not isinstance(evaluator, EvaluatorConfig):
        name = getattr(evaluator, "name", None)
        shown = name if isinstance(name, str) else evaluator.kind
        return {"name": shown, "type": evaluator.kind, "object": type(evaluator).__qualname__}
    settings = {key: _setting_to_json(value, settings_class) for key, value in evaluator.settings.items()}
    kind = None if settings_class is None else settings_class(evaluator.type)
    if kind is not None:
        settings = cast(dict[str, JsonValue], without_notes(settings, kind))
    fields: dict[str, JsonValue] = {"name": evaluator.name, "type": evaluator.type, **settings}
    defaults = EvaluatorConfig(name="", type="")
    for key in EvaluatorConfig.__struct_fields__:
        value = getattr(evaluator, key)
        if key not in _NOT_IN_JSON and value != getattr(defaults, key):
            fields[key] = value
    return fields


_NOT_IN_JSON = frozenset({"name", "type", "settings", "timeout_s", "base_dir"})
"""The fields of an evaluator that are written in another way, or do not change a judgement."""


def _setting_to_json(value: object, settings_class: SettingsClass | None) -> JsonValue:
    if isinstance(value, EvaluatorConfig):
        return evaluator_to_json(value, settings_class)
    if isinstance(value, RubricItem):
        return rubric_to_json(value)
    if isinstance(value, Mapping):
        return {str(key): _setting_to_json(item, settings_class) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_setting_to_json(item, settings_class) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(_plain(value))


_BUCKETS = 1024
_DIGEST_BITS = 64


def digest_64(key: str) -> int:
    """Return the 64-bit digest of a key as a number."""
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


_HAS_LONG_HASH = sys.hash_info.width == _DIGEST_BITS
# Python's own hash is valid for this process only, which is also the lifetime of a set.
_process_digest: Callable[[str], int] = hash if _HAS_LONG_HASH else digest_64
_PROCESS_TYPECODE = "q" if _HAS_LONG_HASH else "Q"
_NO_DIGESTS = array(_PROCESS_TYPECODE)


class DigestSet:
    """A set of keys, stored as 64-bit digests in sorted arrays, the buckets: a million keys take nine megabytes.

    The probability that two of a million keys share a digest is three in a hundred million.
    """

    def __init__(self) -> None:
        # Made when they are needed: most sets are small.
        self._buckets: defaultdict[int, array[int]] = defaultdict(partial(array, _PROCESS_TYPECODE))

    def add(self, key: str) -> bool:
        """Add `key`; return False if it was there already."""
        digest = _process_digest(key)
        bucket = self._buckets[digest % _BUCKETS]
        index = bisect_left(bucket, digest)
        if index < len(bucket) and bucket[index] == digest:
            return False
        bucket.insert(index, digest)
        return True

    def __contains__(self, key: str) -> bool:
        """Return True if `key` was added."""
        digest = _process_digest(key)
        bucket = self._buckets.get(digest % _BUCKETS, _NO_DIGESTS)
        return _has_digest_at(bucket, bisect_left(bucket, digest), digest)

    def __len__(self) -> int:
        """Return the number of keys."""
        return sum(map(len, self._buckets.values()))


class DigestMap:
    """A map from keys, stored as digests, to numbers.

    `typecode` is that of `array`: "Q" for numbers of 64 bits, "I" of 32 bits, "B" of 8 bits.
    """

    def __init__(self, typecode: Literal["Q", "I", "B"] = "Q") -> None:
        self._keys = [array("Q") for _ in range(_BUCKETS)]
        self._numbers = [array(typecode) for _ in range(_BUCKETS)]

    def put(self, key: str, number: int) -> None:
        """Store `number` for `key`, replacing an earlier one."""
        keys, numbers, index, digest = self._find(key)
        if _has_digest_at(keys, index, digest):
            numbers[index] = number
        else:
            keys.insert(index, digest)
            numbers.insert(index, number)

    def setdefault(self, key: str, number: int) -> int:
        """Return the number of `key`; when it has none, store and return `number`."""
        keys, numbers, index, digest = self._find(key)
        if _has_digest_at(keys, index, digest):
            return numbers[index]
        keys.insert(index, digest)
        numbers.insert(index, number)
        return number

    def get(self, key: str) -> int | None:
        """Return the number of `key`, None if the key is unknown."""
        keys, numbers, index, digest = self._find(key)
        return numbers[index] if _has_digest_at(keys, index, digest) else None

    def pop(self, key: str) -> int | None:
        """Remove `key` and return its number, None if the key is unknown."""
        keys, numbers, index, digest = self._find(key)
        if not _has_digest_at(keys, index, digest):
            return None
        keys.pop(index)
        return numbers.pop(index)

    def numbers(self) -> Iterator[int]:
        """Yield all numbers, in arbitrary order."""
        for numbers in self._numbers:
            yield from numbers

    def __len__(self) -> int:
        """Return the number of keys."""
        return sum(map(len, self._keys))

    def _find(self, key: str) -> "tuple[array[int], array[int], int, int]":
        digest = digest_64(key)
        keys = self._keys[digest % _BUCKETS]
        return keys, self._numbers[digest % _BUCKETS], bisect_left(keys, digest), digest


def _has_digest_at(keys: "array[int]", index: int, digest: int) -> bool:
    return index < len(keys) and keys[index] == digest


MAX_ID_CHARACTERS = 48
_ID = re.compile(r"[\w.-]{1,64}")
_WORD = re.compile(r"\w+")


def make_id(given: str, *, fallback: str, taken: Container[str] = ()) -> str:
    """Return `given` as an id: unchanged if it is a valid one, else as a slug, or `fallback` if no letter is left.

    An id in `taken` gets a number: `refund-2`.
    """
    given = given.strip()
    wanted = (given if _ID.fullmatch(given) else slug(given)) or fallback
    unique_id, number = wanted, 1
    while unique_id in taken:
        number += 1
        unique_id = f"{wanted}-{number}"
    return unique_id


def slug(text: str) -> str:
    """Return the first words of a text joined by dashes, at most 48 characters; letters of any script are allowed."""
    joined = ""
    for word in _WORD.findall(unicodedata.normalize("NFC", text[: 4 * MAX_ID_CHARACTERS]).casefold()):
        longer = f"{joined}-{word}" if joined else word[:MAX_ID_CHARACTERS]
        if len(longer) > MAX_ID_CHARACTERS:
            break
        joined = longer
    return joined

"""Tests of promptfoo in full: files read, defaults added, and lists of values expanded."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from agentv.importers.located import Located, open_located
from agentv.importers.promptfoo.assertions import ASSERTION_TYPES, Options
from agentv.importers.promptfoo.prompts import is_code, load_value
from agentv.importers.promptfoo.templates import is_template
from agentv.loading.datasets.rows import Row, open_rows
from agentv.loading.files.documents import Document, JsonPath, Key, Mark, Spot, child
from agentv.loading.files.json_lines import parse_json
from agentv.loading.files.text import decode, read_lines, shown
from agentv.loading.models.reader import kind_of
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonObject, JsonValue

TEST_KEYS = {
    "description": None,
    "vars": None,
    "assert": None,
    "options": None,
    "threshold": None,
    "metadata": None,
    "provider": None,
    "providers": None,
    "prompts": None,
    "providerOutput": None,
    "assertScoringFunction": "use an evaluator of type composite with an aggregator",
}
"""The keys of a test: None if a key is carried over, else advice."""
DEFAULT_KEYS = {key: advice for key, advice in TEST_KEYS.items() if key != "description"}
LOSING_KEYS = ("assertScoringFunction",)
OPTION_KEYS = {
    "prefix": None,
    "suffix": None,
    "provider": None,
    "rubricPrompt": None,
    "disableVarExpansion": None,
    "disableDefaultAsserts": None,
    "repeat": None,
    "transform": "use `response` of an http target, a python target, or a code_judge",
    "postprocess": "use `response` of an http target, a python target, or a code_judge",
    "transformVars": "prepare the values in a dataset's function: evalcases: {file: data.py:rows}",
    "storeOutputAs": "a case cannot use the answer to another; write one case with the conversation",
    "factuality": "use `rubric` with weights",
    "disableConversationVar": "a case is always a conversation of its own",
    "runSerially": "use `execution: {workers: 1}`",
}
"""The options of a test, as in TEST_KEYS."""
_LOSING_OPTIONS = ("transform", "postprocess", "transformVars")
"""The options whose loss changes what is asked or judged."""
_MEDIA_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".mp3", ".wav")
_MAX_CASES = 10_000
"""The largest number of cases that one test may become, and of tests that one scenario may become."""
_TYPED_ASSERTION = re.compile(
    rf"(not-)?({'|'.join(map(re.escape, sorted(ASSERTION_TYPES, reverse=True)))})(?:\(([\d.]+)\))?(?::\s*(.*))?",
    re.DOTALL,
)
_TYPES_BY_PREFIX = {"javascript:": "javascript", "fn:": "javascript", "eval:": "javascript", "python:": "python",
                    "grade:": "llm-rubric", "llm-rubric:": "llm-rubric"}  # fmt: skip


class Test(Struct, frozen=True):
    """One test, completed from `defaultTest`."""

    place: Located
    description: str
    values: dict[str, JsonValue]
    """The values of the test's variables."""
    assertions: tuple[Located, ...]
    options: Options
    threshold: Located
    metadata: dict[str, JsonValue]
    provider: Located
    """The only provider that answers this test: its name in the configuration, or its definition."""
    providers: Located
    """The names of the configuration's providers that answer this test."""
    prompts: Located
    """The names of the configuration's prompts that this test uses."""
    output: Located
    """A given answer. If there is one, no provider is called."""


class Sources(Struct, frozen=True):
    """The tests that become listed cases, or else the tables that can remain datasets.

    Each table has the entry that names it.
    """

    listed: tuple[Located, ...]
    datasets: tuple[tuple[Path, Located], ...]


def find_tests(source: Located) -> Sources:
    """Return the tests of a configuration. Tables with only variables remain datasets, unless there are other tests."""
    listed: list[Located] = []
    datasets: list[tuple[Path, Located]] = []
    for item in source.items():
        for found in _tests_or_tables(item):
            if isinstance(found, Path):
                datasets.append((found, item))
            else:
                listed.append(found)
    if listed and datasets:
        return Sources((*listed, *(test for path, item in datasets for test in tests_in_file(path, item))), ())
    return Sources(tuple(listed), tuple(datasets))


def _tests_or_tables(item: Located) -> Iterator[Located | Path]:
    """Yield the tests of an entry: the entry itself, or those in the files that it names.

    For a table that can remain a dataset, yield its path.
    """
    if isinstance(item.value, Mapping):
        if "path" in item.value:
            item.lose(f"the tests made by {item.get('path').text()} are not carried over",
                      "write them to a file, or use a dataset's function: evalcases: {file: data.py:rows}")  # fmt: skip
        else:
            yield item
        return
    name = item.text().removeprefix("file://")
    if re.match(r"\w+://", name) or name.startswith("huggingface:"):
        item.lose(f"the tests of {name} are not carried over", "export them as CSV and name the file")
    elif is_code(name):
        item.lose(f"the tests made by {name} are not carried over",
                  "write them to a file, or use a dataset's function: evalcases: {file: data.py:rows}")  # fmt: skip
    else:
        paths = item.files(name)
        if not paths:
            item.lose(f"the file {name!r} does not exist; its tests are not carried over")
        for path in paths:
            yield from [path] if _is_plain_table(path) else tests_in_file(path, item)


def _is_plain_table(path: Path) -> bool:
    """Return True for a CSV or TSV file with only variables as columns, whose ids, if any, are unique and not empty.

    A value that is a template is filled in promptfoo, but not in a dataset.
    """
    rows = open_rows(path) if path.suffix.lower() in (".csv", ".tsv") else None
    ids: set[JsonValue] = set()
    for row in rows or ():
        if row.problems or any(key.strip().startswith("__") for key in row.values):
            return False
        if any(isinstance(value, str) and is_template(value) for value in row.values.values()):
            return False
        if "id" in row.values and (row.values["id"] in ids or not row.values["id"]):
            return False
        ids.add(row.values.get("id"))
    return rows is not None


def tests_in_file(path: Path, item: Located) -> Iterator[Located]:
    """Yield the tests of a file that the entry `item` names; a file of an unknown format is recorded.

    Raises EvalFileError for a file or row that cannot be read.
    """
    if path.suffix.lower() in (".yaml", ".yml", ".json"):
        for found in open_located(path, item.losses).items():
            yield from _as_test(found)
        return
    rows = _json_rows(path) if path.suffix.lower() == ".jsonl" else open_rows(path)
    if rows is None:
        item.lose(f"the tests of {path.name} are not carried over", "export them as CSV and name the file")
        return
    for row in rows:
        if row.problems:
            raise EvalFileError(shown(path), row.problems)
        document = row.document or Document(shown(path), row.values, Mark(row.line, 1))
        yield from _as_test(Located(document, item.losses, path.parent, at=row.at, value=document.at(row.at)))


def _json_rows(path: Path) -> Iterator[Row]:
    """Yield a row for each line of a JSON Lines file that is not blank, with its problems."""
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            document, problems = parse_json(decode(line, shown(path), first_line=number), shown(path), number)
            value = document.value if document is not None else None
            yield Row(number, value if isinstance(value, Mapping) else {}, tuple(problems), document)


def _as_test(found: Located) -> Iterator[Located]:
    """Yield an object as a test. An object without `vars`, `assert` and `options` is a row, and is made into a test.

    A value that is not an object is recorded.
    """
    value = found.value
    if not isinstance(value, Mapping):
        found.lose(f"a test must be an object, but is {kind_of(value)}; it is not carried over")
        return
    if {"vars", "assert", "options"} & value.keys():
        yield found
        return
    mark = found.document.mark(found.at)
    document = Document(found.document.path, _test_of_row(value, found), mark)
    yield Located(document, found.losses, found.folder, at=(), value=document.value)


def _test_of_row(row: JsonObject, place: Located) -> JsonObject:
    """Return the test in a row. Columns that start with `__` are promptfoo's own; all others are variables."""
    test: dict[str, JsonValue] = {}
    values: dict[str, JsonValue] = {}
    options: dict[str, JsonValue] = {}
    metadata: dict[str, JsonValue] = {}
    assertions: list[JsonValue] = []
    metric = str(row.get("__metric") or "")
    for name, value in ((key.strip(), value) for key, value in row.items()):
        if name.startswith("__expected"):
            if str(value).strip():
                assertion = _cell_assertion(str(value))
                assertion |= _threshold(row.get(f"__config:{name}:threshold"))
                assertions.append(assertion | ({"metric": metric} if metric else {}))
        elif name in ("__prefix", "__suffix"):
            options[name.removeprefix("__")] = value
        elif name in ("__description", "__providerOutput"):
            test[name.removeprefix("__")] = value
        elif name == "__threshold":
            test |= _threshold(value)
        elif name.startswith("__metadata:"):
            metadata[name.removeprefix("__metadata:").removesuffix("[]")] = value
        elif not name.startswith("__"):
            values[name] = value
        # `__metric` and `__config:…` are read with the columns `__expected`.
        elif name != "__metric" and not name.startswith("__config:"):
            place.drop(f"the column {name!r} is not carried over")
    parts: dict[str, JsonValue] = {"vars": values, "assert": assertions, "options": options, "metadata": metadata}
    test.update({key: part for key, part in parts.items() if part or key == "vars"})
    return test


def _threshold(cell: JsonValue) -> dict[str, JsonValue]:
    """Return the key `threshold` with the content of a cell; {} if the cell is empty."""
    return {} if cell in (None, "") else {"threshold": cell}


def _cell_assertion(text: str) -> dict[str, JsonValue]:
    """Return the assertion of a cell: `contains: x`, `grade: x`, `not-regex: x`, …; `equals` for any other text."""
    for prefix, type_ in _TYPES_BY_PREFIX.items():
        if text.startswith(prefix):
            return {"type": type_, "value": text.removeprefix(prefix).strip()}
    if text.startswith("file://") and is_code(text):
        return {"type": "python" if ".py" in text else "javascript", "value": text}
    match = _TYPED_ASSERTION.fullmatch(text)
    if match is None:
        return {"type": "equals", "value": text}
    assertion: dict[str, JsonValue] = {"type": f"{match[1] or ''}{match[2]}"}
    if match[4]:
        assertion["value"] = match[4].strip()
    return assertion | _threshold(match[3])


def with_defaults(test: Located, default: Located) -> Test:
    """Return a test completed from `defaultTest`; the test has precedence. What is not carried over is recorded."""
    test.drop_unsupported(TEST_KEYS, "a test", losing=LOSING_KEYS)
    default.drop_unsupported(DEFAULT_KEYS, "defaultTest", losing=LOSING_KEYS)
    options = Options((test.get("options"), default.get("options")))
    for place in options.places:
        report_options(place)
    assertions = tuple(test.get("assert").items())
    if options.get("disableDefaultAsserts").value is not True:
        assertions = (*default.get("assert").items(), *assertions)
    for key in ("vars", "options", "metadata"):
        for source in (test, default):
            _drop_non_object(source.get(key), may_be_files=key == "vars")

    def own_or_default(key: str) -> Located:
        return test.get(key) if test.get(key).value is not None else default.get(key)

    metadata = {key: item.value for source in (default, test) for key, item in source.get("metadata").entries()}
    return Test(
        test,
        test.get("description").text(),
        {**_values(default.get("vars")), **_values(test.get("vars"))},
        assertions=assertions,
        options=options,
        threshold=own_or_default("threshold"),
        metadata=metadata,
        provider=own_or_default("provider"),
        providers=own_or_default("providers"),
        prompts=own_or_default("prompts"),
        output=own_or_default("providerOutput"),
    )


def _drop_non_object(place: Located, *, may_be_files: bool) -> None:
    """Record a value that is not an object. With `may_be_files` a file name and a list of them are allowed, too."""
    is_read = isinstance(place.value, Mapping) or (may_be_files and isinstance(place.value, str | list))
    if place.value is not None and not is_read:
        record = place.lose if may_be_files else place.drop
        record(f"`{place.at[-1]}` is not an object; it is not carried over")


def matches_name(reference: str, names: Iterable[str]) -> bool:
    """Return True if a reference in a test matches any of the names of a prompt or provider, as in promptfoo.

    `openai` also matches `openai:gpt-5`, and `gpt*` matches `gpt-5`.
    """
    prefix = reference.removesuffix("*") if reference.endswith("*") else f"{reference}:"
    return any(name == reference or name.startswith(prefix) for name in names if name)


def report_options(options: Located) -> None:
    """Record the options of a test, or of `defaultTest`, that are not carried over."""
    for key, place in options.entries():
        advice = OPTION_KEYS.get(key, "put settings of a model into its target")
        if advice is not None:
            record = place.lose if key in _LOSING_OPTIONS else place.drop
            record(f"`{key}` is not carried over", advice)


def _values(source: Located) -> dict[str, JsonValue]:
    """Return the variables of a test, including those in files.

    Images, audio files, PDFs and values made by code are recorded; their names remain as values.
    """
    if isinstance(source.value, str | list):
        files = [item.require_inside(item.folder / item.text().removeprefix("file://")) for item in source.items()]
        read = [open_located(path, source.losses) for path in files]
        return {key: item for found in read for key, item in _values(found).items()}
    return {key: _value(place) for key, place in source.entries()}


def _value(place: Located) -> JsonValue:
    """Return the value of a variable: the content of a file, a list with the content of each, or the value itself."""
    value = place.value
    if isinstance(value, list):
        return [_value(item) for item in place.items()]
    if not isinstance(value, str) or not value.startswith("file://"):
        return value
    if is_code(value):
        place.lose(f"the value made by {value} is not carried over", "prepare it in a dataset's function")
    elif Path(value).suffix.lower() in _MEDIA_SUFFIXES:
        place.lose(f"{value} is not carried over", "attach it to the message: {type: image, value: PATH}")
    else:
        return load_value(value, place)
    return value


def expanded(test: Test) -> list[Test]:
    """Return one test for each combination of items, one from each value that is a list, as promptfoo does.

    Return no test if a list is empty, or if there are more than _MAX_CASES combinations; both are recorded.
    """
    lists = {key: value for key, value in test.values.items() if isinstance(value, list)}
    if not lists or test.options.get("disableVarExpansion").value is True:
        return [test]
    for key in (key for key, value in lists.items() if not value):
        test.place.drop(f"its list of values `{key}` is empty, which makes no case")
    combinations = list(itertools.islice(itertools.product(*lists.values()), _MAX_CASES + 1))
    if len(combinations) > _MAX_CASES:
        test.place.lose(f"its lists of values make more than {_MAX_CASES:,} cases; it is not carried over")
        return []
    return [replace(test, values={**test.values, **dict(zip(lists, chosen, strict=True))}) for chosen in combinations]


def scenario_tests(source: Located) -> list[Located]:
    """Return the tests of scenarios. In each scenario, each configuration is combined with each test."""
    combined: list[Located] = []
    for item in source.items():
        listed = [item]
        if isinstance(item.value, str):
            path = item.require_inside(item.folder / item.text().removeprefix("file://"))
            listed = list(open_located(path, item.losses).items())
        for scenario in listed:
            if not isinstance(scenario.value, Mapping):
                scenario.lose(f"a scenario must be an object, but is {kind_of(scenario.value)}; it is not carried over")
            scenario.drop_unsupported({"description": None, "config": None, "tests": None}, "a scenario")
            configs = [part for entry in scenario.get("config").items() for part in _tests_of_entry(entry)]
            tests = [part for entry in scenario.get("tests").items() for part in _tests_of_entry(entry)]
            if len(configs) * len(tests) > _MAX_CASES:
                scenario.lose(f"this scenario makes more than {_MAX_CASES:,} tests; they are not carried over")
                continue
            combined += [_combined(config, test) for config in configs for test in tests]
    return combined


def _tests_of_entry(entry: Located) -> list[Located]:
    """Return the tests of an entry of a scenario; tables are read, too."""
    if isinstance(entry.value, Mapping):
        return [entry]
    found = [list(tests_in_file(item, entry)) if isinstance(item, Path) else [item] for item in _tests_or_tables(entry)]
    return list(itertools.chain.from_iterable(found))


def _combined(config: Located, test: Located) -> Located:
    """Return a test completed from a scenario's configuration; the test has precedence.

    Variables, options and metadata are merged, assertions joined. The result is in a copy of the test's document, so
    that the test's own keys have their positions.
    """
    marks: dict[int, Mapping[Key, Spot]] = {**config.document.marks, **test.document.marks}
    common = config.value if isinstance(config.value, Mapping) else {}
    own = test.value if isinstance(test.value, Mapping) else {}
    value = _merged(common, own, marks)
    for key in ("vars", "options", "metadata"):
        parts = [part for part in (common.get(key), own.get(key)) if isinstance(part, Mapping)]
        if parts:
            value[key] = _merged(parts[0], parts[-1], marks)
    assertion_lists = [part for part in (common.get("assert"), own.get("assert")) if isinstance(part, list)]
    if assertion_lists:
        joined = [item for part in assertion_lists for item in part]
        spots = [marks.get(id(part), {}).get(index) for part in assertion_lists for index in range(len(part))]
        marks[id(joined)] = {index: spot for index, spot in enumerate(spots) if spot is not None}
        value["assert"] = joined
    whole = _with_value(test.document.value, test.at, value, marks)
    document = Document(test.document.path, whole, test.document.start, marks)
    return Located(document, test.losses, test.folder, at=test.at, value=value)


def _merged(first: JsonObject, second: JsonObject, marks: dict[int, Mapping[Key, Spot]]) -> dict[str, JsonValue]:
    """Return the entries of both objects, and add their marks to `marks`; `second` has precedence."""
    value = {**first, **second}
    marks[id(value)] = {**marks.get(id(first), {}), **marks.get(id(second), {})}
    return value


def _with_value(whole: JsonValue, at: JsonPath, value: JsonValue, marks: dict[int, Mapping[Key, Spot]]) -> JsonValue:
    """Return a copy of `whole` with `value` at a path. Copied objects and lists get the marks of the originals."""
    if not at:
        return value
    inner = _with_value(child(whole, at[0]), at[1:], value, marks)
    copy: JsonValue
    if isinstance(whole, Mapping):
        copy = {**whole, str(at[0]): inner}
    else:
        copy = [inner if index == at[0] else item for index, item in enumerate(cast(Sequence[JsonValue], whole))]
    marks[id(copy)] = marks.get(id(whole), {})
    return copy

"""Keys added to cases in place: all other bytes stay, and so does the meaning of the suite."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from agentv.engine.generate import rubrics_to_json
from agentv.engine.plugins.loading import load_specs
from agentv.loading.edit.cases_file import CasesFile, NewKey, open_cases
from agentv.loading.files.composer import compose
from agentv.reports.text.yaml_text import yaml_item, yaml_line
from agentv.types.cases import RubricItem
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonObject, JsonValue

SPECS = load_specs()
MESSAGES = "input_messages: [{role: user, content: hi}]"

HEADS = ("", "# head\n\n", "%YAML 1.2\n---\n", "$schema: agentv-eval-v2\ndescription: 'a: b'   # why\n")
CASES = (
    f"id: ID\n  {MESSAGES}   # note\n  expected_outcome: plain text\n    on two lines  # end\n",
    f"id: 'ID'\n  expected_outcome: >-\n    folded\n\n    text\n\n\n  # below\n  {MESSAGES}\n",
    f"id: ID\n  {MESSAGES}\n  expected_outcome: |\n    kept text\n\n\n  # after it\n",
    f"id: ID\n  {MESSAGES}\n  expected_outcome: |+\n    all kept\n\n\n",
    f'id: ID\n\n  {MESSAGES}\n\n  "expected_outcome": "quoted\\u2028é 😀"\n\n',
    "id: ID\n  expected_outcome: x\n  input_messages:\n    - role: user\n      content: hi   # deep\n    # deep end\n",
    "id: ID\n  expected_outcome: x\n  input_messages:\n  - role: user\n    content: [{type: text, value: 'a,}'}]\n",
    f"id: ID\n  expected_outcome: x\n  {MESSAGES}\n  metadata:\n    empty:\n\n",
    "? id\n  : ID\n  ? expected_outcome\n  : x\n  ? input_messages\n  : [{role: user, content: hi}]\n",
)
FLOWS = (
    "{id: ID, expected_outcome: x, input_messages: [{role: user, content: hi}]}   # flow\n",
    '{"id": "ID", "expected_outcome": "}", "input_messages": [{"role": "user", "content": "hi"}],}\n',
    "{id: ID, expected_outcome: x, # inside }\n   input_messages: [{role: user, content: hi}] # last }\n  }\n",
)

descriptions = st.text(min_size=1, max_size=60).filter(str.strip)
nasty = st.sampled_from(
    [
        "*alias", "!!python/object:os.system x", "- a: b", "#no", "no", "~", "1e3", "a: b", "\x00\x1b[2J", "\u2028x",
        "|", "two\nlines\n", " lead", "\ttab", "'", '"', "\\", "{{ x }}", "%d", "@x", "`x`", "\x85", "\ufeff", "> x",
        "\r", "x" * 5000, "a\n \n  b\n\n", "? x",
    ]
)  # fmt: skip
# Model output is stripped, since a block scalar that keeps its trailing breaks would include the file's own.
texts = (nasty | descriptions).map(lambda text: text.encode("utf-8", "replace").decode().strip()).filter(bool)
items = st.builds(RubricItem, st.just("x") | texts, texts, st.sampled_from([1.0, 2.0, 0.25]), st.booleans())


@st.composite
def suites(draw: st.DrawFn) -> bytes:
    """Return an eval file in any of the styles that YAML allows."""
    chosen = draw(st.lists(st.sampled_from([*CASES, *FLOWS]), min_size=1, max_size=4))
    indent = draw(st.sampled_from(["", "  ", "    "]))
    text = draw(st.sampled_from(HEADS)) + "evalcases:" + draw(st.sampled_from(["\n", "   # all\n\n"]))
    for number, case in enumerate(chosen):
        lines = f"- {case}".replace("ID", f"case-{number}").splitlines(keepends=True)
        text += "".join(line if line == "\n" else f"{indent}{line}" for line in lines)
    text += draw(st.sampled_from(["", "# the end\n", "\n\n", "tags: [x]\n"]))
    if draw(st.booleans()) and "|" not in chosen[-1]:
        text = text.rstrip("\n")
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    mark = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    return mark + text.replace("\n", newline).encode()


def new_key(*rubrics: RubricItem) -> NewKey:
    value: list[JsonValue] = rubrics_to_json(rubrics)
    lines = "\n".join(line[2:] for line in yaml_item({"rubrics": value}).split("\n"))
    return NewKey("rubrics", value, lines, yaml_line(value))


def value_of(data: bytes) -> JsonValue:
    document, problems = compose(data.decode().removeprefix("\ufeff"), "f")
    assert document is not None
    assert problems == ()
    return document.value


def is_grown_from(new: bytes, old: bytes) -> bool:
    """Return True if `new` is `old` with lines inserted, and additions inside lines that contain a whole case."""
    lines: Iterator[bytes] = iter(new.splitlines(keepends=True))
    return all(any(_is_line(line, before) for line in lines) for before in old.splitlines(keepends=True))


def _is_line(line: bytes, before: bytes) -> bool:
    if line.rstrip(b"\r\n") == before.rstrip(b"\r\n") or b"rubrics: " not in line:
        return line.rstrip(b"\r\n") == before.rstrip(b"\r\n")
    start, _, rest = line.partition(b", rubrics: ")
    return before.startswith(start) and rest.rstrip(b"\r\n").endswith(before[len(start) :].rstrip(b"\r\n"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("suites")


@given(suites(), st.lists(items, min_size=1, max_size=3, unique_by=lambda item: item.id), st.data())
def test_what_stood_there_stays_and_the_rest_reads_back(
    folder: Path, data: bytes, rubrics: list[RubricItem], draw: st.DataObject
) -> None:
    path = folder / "suite.yaml"
    path.write_bytes(data)
    file = open_cases(path, SPECS)
    chosen = draw.draw(st.sets(st.integers(0, len(file.cases) - 1), min_size=1))
    made = file.with_keys({index: new_key(*rubrics) for index in chosen}, SPECS)
    assert is_grown_from(made, data)
    before, after = value_of(data), value_of(made)
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert {**after, "evalcases": None} == {**before, "evalcases": None}
    wanted = rubrics_to_json(rubrics)
    expected = [{**case, "rubrics": wanted} if i in chosen else case for i, case in enumerate(file.cases)]
    assert after["evalcases"] == expected
    others_read = YAML(typ="safe", pure=True).load(made.decode().removeprefix("\ufeff"))
    assert [case.get("rubrics") for case in others_read["evalcases"]] == [case.get("rubrics") for case in expected]


@given(suites(), texts)
def test_cases_are_put_behind_the_last_one(folder: Path, data: bytes, text: str) -> None:
    path = folder / "suite.yaml"
    path.write_bytes(data)
    file = open_cases(path, SPECS)
    case: JsonObject = {"id": "new", "expected_outcome": text, "input_messages": [{"role": "user", "content": text}]}
    made = file.with_cases([case], [yaml_item(case)], SPECS)
    assert is_grown_from(made, data)
    after = value_of(made)
    assert isinstance(after, dict)
    assert after["evalcases"] == [*file.cases, case]


def opened(folder: Path, text: str, name: str = "suite.yaml") -> CasesFile:
    path = folder / name
    path.write_text(text)
    return open_cases(path, SPECS)


ONE = new_key(RubricItem("x", "Says so"))
SHARED = """\
evalcases:
  - &first
    id: a
    expected_outcome: x
    input_messages: [{role: user, content: hi}]
  - <<: *first
    id: b
"""


def test_what_another_case_takes_over_is_never_changed(tmp_path: Path) -> None:
    file = opened(tmp_path, SHARED)
    with pytest.raises(
        EvalFileError, match=r"suite\.yaml:6:5  \$\.evalcases\[1\]  an addition to another case would also"
    ):
        file.with_keys({0: ONE}, SPECS)
    both = value_of(file.with_keys({0: ONE, 1: ONE}, SPECS))
    assert isinstance(both, dict)
    assert [case["rubrics"] for case in both["evalcases"]] == [ONE.value] * 2


def test_a_case_that_is_an_alias_is_refused_with_its_place(tmp_path: Path) -> None:
    case = f"{{id: a, expected_outcome: x, {MESSAGES}, metadata: {{}}}}"
    file = opened(tmp_path, f"description: &d x\nevalcases:\n  - &c {case}\n  - *c\n")
    with pytest.raises(
        EvalFileError, match=r"suite\.yaml:4:5  \$\.evalcases\[1\]  this case is an alias; write the case out in full"
    ):
        file.with_keys({1: ONE}, SPECS)


def test_cases_that_stand_in_other_files_are_refused_with_their_place(tmp_path: Path) -> None:
    with pytest.raises(EvalFileError, match=r"suite\.yaml:1:12  \$\.evalcases  the cases of this suite are in other"):
        opened(tmp_path, "evalcases: {file: cases.jsonl}\n")


def test_a_block_text_that_ends_with_the_file_keeps_its_end(tmp_path: Path) -> None:
    file = opened(tmp_path, f"evalcases:\n- id: a\n  {MESSAGES}\n  expected_outcome: |\n    no line break here")
    made = file.with_keys({0: ONE}, SPECS)
    after = value_of(made)
    assert isinstance(after, dict)
    assert after["evalcases"][0]["expected_outcome"] == "no line break here"
    assert made.endswith(b"no line break here")


def test_blank_lines_between_cases_stay_between_them(tmp_path: Path) -> None:
    case = f"- id: ID\n  {MESSAGES}\n  expected_outcome: |\n    text\n\n"
    file = opened(tmp_path, "evalcases:\n" + case.replace("ID", "a") + case.replace("ID", "b"))
    rubrics = "  rubrics:\n  - id: x\n    description: Says so\n"
    assert file.with_keys({0: ONE, 1: ONE}, SPECS).decode() == "evalcases:\n" + "".join(
        case.replace("ID", name).removesuffix("\n") + rubrics + "\n" for name in "ab"
    )


LINE = '{"id": "ID", "expected_outcome": "}", "input_messages": [{"role": "user", "content": "hi"}]}'


@example(item=RubricItem("\U000e0001", "says so"), ending="\n", compact=False, marked=False)
@given(items, st.sampled_from(["\n", "\r\n", "  \n\n"]), st.booleans(), st.booleans())
def test_other_lines_of_json_lines_stay_to_the_byte(
    folder: Path, item: RubricItem, ending: str, compact: bool, marked: bool
) -> None:
    line = json.dumps(json.loads(LINE), separators=(",", ":")) if compact else LINE
    lines = [(line.replace("ID", name) + ending).encode() for name in "abc"]
    data = (b"\xef\xbb\xbf" if marked else b"") + b"".join(lines)
    path = folder / "cases.jsonl"
    path.write_bytes(data)
    made = open_cases(path, SPECS).with_keys({1: new_key(item)}, SPECS)
    start, end = data.index(lines[1]), data.index(lines[2])
    assert (made[:start], made[-(len(data) - end) :]) == (data[:start], data[end:])
    got = json.loads(made[start : len(made) - (len(data) - end)])
    assert got == {**json.loads(lines[1]), "rubrics": rubrics_to_json([item])}
    assert (b'": ' in made) is (not compact or b'": ' in yaml_line(rubrics_to_json([item])).encode())

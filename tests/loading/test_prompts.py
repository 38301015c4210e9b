"""`prompts:` of an eval file: the forms of a prompt, their ids, and the messages of each case with each prompt."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.loading.specs import SPECS

from agentv.loading.check.check import check_paths
from agentv.loading.suites.suites import load_suite
from agentv.types.cases import EvalCase, EvalSuite
from agentv.types.errors import EvalFileError

CASE = """
vars: {tone: kind}
evalcases:
  - id: a
    expected_outcome: ok
    vars: {topic: tea}
    input_messages: [{role: user, content: "About {{ topic }}?"}]
"""
OWN = ("user", "About tea?")


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path.resolve() / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)


def write(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)


def suite(prompts: str, cases: str = CASE) -> EvalSuite:
    Path("suite.yaml").write_text(f"prompts:{prompts}\n{cases}")
    return load_suite("suite.yaml", specs=SPECS)


def sent(prompts: str, cases: str = CASE) -> dict[str | None, list[tuple[str, object]]]:
    """Return role and content of the messages of the only case by prompt."""
    (case,) = suite(prompts, cases).cases
    assert isinstance(case, EvalCase)
    return {
        each.prompt: [(message.role, message.content) for message in each.input_messages]
        for each in case.with_prompts()
    }


def problems(prompts: str, cases: str = CASE) -> str:
    with pytest.raises(EvalFileError) as caught:
        list(suite(prompts, cases).cases)
    return str(caught.value)


def test_text_is_one_user_message_with_variables_filled() -> None:
    assert sent(' ["Be {{ tone }}: {{ topic }}"]') == {"prompt-1": [("user", "Be kind: tea")]}


def test_text_of_several_lines_is_no_file() -> None:
    assert sent("\n  - |\n    Say\n    {{ topic }}.md") == {"prompt-1": [("user", "Say\ntea.md\n")]}


@pytest.mark.parametrize(
    "written", ["short.md", "file://short.md", "{file: short.md}", "{id: short, file: ./short.md}"]
)
def test_file_is_one_user_message_with_variables_filled(written: str) -> None:
    write({"short.md": "Short: {{ topic }}"})
    assert sent(f" [{written!r}]" if written[0] != "{" else f" [{written}]") == {"short": [("user", "Short: tea")]}


def test_ids_are_given_or_the_stem_of_the_file_or_the_number() -> None:
    write({"prompts/v1.md": "A", "prompts/v2.txt": "B"})
    prompts = " [prompts/v1.md, {id: second, file: prompts/v2.txt}, text, {text: more}, {id: e, text: end}]"
    assert suite(prompts).prompts == ("v1", "second", "prompt-3", "prompt-4", "e")


def test_system_stands_before_the_messages_of_the_case() -> None:
    assert sent(' [{id: s, system: "Be {{ tone }}"}]') == {"s": [("system", "Be kind"), OWN]}


def test_messages_replace_those_of_the_case() -> None:
    prompts = ' [{id: m, messages: [{role: system, content: "{{ tone }}"}, {role: user, content: "{{ topic }}!"}]}]'
    assert sent(prompts) == {"m": [("system", "kind"), ("user", "tea!")]}


def test_messages_of_the_case_are_inserted_where_they_are_named() -> None:
    prompts = " [{id: m, messages: [{role: system, content: Hi}, {case: messages}, {role: user, content: Go}]}]"
    assert sent(prompts) == {"m": [("system", "Hi"), OWN, ("user", "Go")]}


def test_each_case_comes_with_each_prompt_in_the_order_of_the_file() -> None:
    assert list(sent(' [{id: b, text: B}, {id: a, text: "{{ topic }}"}]')) == ["b", "a"]


def test_a_file_without_variables_is_not_templated() -> None:
    cases = "evalcases: [{id: a, expected_outcome: ok, input_messages: [{role: user, content: Hi}]}]"
    assert sent(' ["Write {{ x }}"]', cases) == {"prompt-1": [("user", "Write {{ x }}")]}


def test_values_of_variables_are_not_expanded_again() -> None:
    cases = CASE.replace("topic: tea", 'topic: "{{ tone }}"')
    assert sent(' ["{{ topic }}"]', cases) == {"prompt-1": [("user", "{{ tone }}")]}


def test_two_prompts_with_one_id_are_an_error_with_the_place() -> None:
    write({"a/v1.md": "A", "b/v1.md": "B"})
    text = problems("\n  - a/v1.md\n  - b/v1.md")
    assert "suite.yaml:3:" in text
    assert "a second prompt with the id 'v1'" in text
    assert "give it another `id`" in text


def test_missing_file_is_an_error_with_the_nearest_name() -> None:
    write({"short.md": "A"})
    text = problems("\n  - shrt.md")
    assert "suite.yaml:2:" in text
    assert "shrt.md" in text
    assert "short.md" in text


def test_missing_file_says_how_a_text_is_written() -> None:
    assert "{text: …}" in problems("\n  - other.md")


def test_file_outside_the_root_is_refused() -> None:
    write({"../secret.md": "S"})
    assert "--allow-path" in problems("\n  - ../secret.md")


def test_file_that_is_no_text_is_refused() -> None:
    Path("p.bin").write_bytes(b"\x00\xff\xfe\x80")
    assert "not a text file" in problems("\n  - p.bin")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (" []", "must not be empty"),
        (" text", "must be a list"),
        (" {a: b}", "must be a list"),
        (" ['']", "must not be empty"),
        (" [3]", "must be a text, a file or an object"),
        (" [{id: a}]", "`text`, `file`, `system` and `messages`"),
        (" [{text: a, file: b.md}]", "`text`, `file`, `system` and `messages`"),
        (" [{id: a, sytem: x}]", "sytem"),
        (" [{id: a, messages: []}]", "must not be empty"),
        (" [{id: a, messages: [{case: message}]}]", "{case: messages}"),
        (" [{id: a, messages: [{role: usr, content: x}]}]", "usr"),
        (" [{id: a, messages: [{role: user}]}]", "content"),
    ],
)
def test_what_is_no_prompt_is_an_error_with_its_place(written: str, message: str) -> None:
    text = problems(written)
    assert "suite.yaml:1:" in text
    assert message in text


def test_empty_list_of_prompts_is_not_ignored() -> None:
    assert "must be a list" in problems("\n")


def test_undefined_variable_names_the_prompt_and_the_case() -> None:
    text = problems(' [{id: short, text: "{{ topc }}"}]')
    assert "suite.yaml:5:" in text
    assert "prompt 'short'" in text
    assert "topc" in text
    assert "topic" in text


PLAIN = "evalcases: [{id: a, input: tea, expected: ok}]"


def test_input_of_a_case_is_a_variable_of_prompts_also_without_other_variables() -> None:
    assert sent(' ["About {{ input }}, please"]', PLAIN) == {"prompt-1": [("user", "About tea, please")]}


def test_own_variable_named_input_precedes_the_input_of_the_case() -> None:
    cases = "evalcases: [{id: a, input: tea, expected: ok, vars: {input: milk}}]"
    assert sent(' ["{{ input }}"]', cases) == {"prompt-1": [("user", "milk")]}


def test_undefined_variable_is_a_warning_in_a_file_without_variables() -> None:
    problem, unsent = suite(' ["About {{ inptu }}"]', PLAIN).warnings
    assert "prompt 'prompt-1': there is no variable 'inptu'" in problem.message
    assert problem.suggestion == "input"
    assert "not sent" in unsent.message


def test_input_that_no_prompt_sends_is_one_warning() -> None:
    cases = "evalcases: [{id: a, input: tea, expected: ok}, {id: b, input: milk, expected: ok}]"
    (problem,) = suite(' ["Say something."]', cases).warnings
    assert "the inputs of 2 cases are not sent" in problem.message
    assert suite(' ["Say something.", {id: s, system: hi}]', cases).warnings == ()


def test_row_without_question_is_a_case_if_prompts_give_all_messages() -> None:
    write({"q.csv": "id,topic\nr,rain\n"})
    assert sent(' ["{{ topic }}?"]', "evalcases: {file: q.csv, case: {expected_outcome: ok}}") == {
        "prompt-1": [("user", "rain?")]
    }


def test_row_without_question_is_an_error_if_a_prompt_needs_it() -> None:
    write({"q.csv": "id,topic\nr,rain\n"})
    text = problems(" [{id: s, system: hi}]", "evalcases: {file: q.csv, case: {expected_outcome: ok}}")
    assert "q.csv:2" in text
    assert "question" in text


def test_case_without_messages_is_loaded_if_prompts_give_all() -> None:
    cases = "vars: {x: 1}\nevalcases: [{id: a, expected_outcome: ok}]"
    assert sent(' ["n {{ x }}"]', cases) == {"prompt-1": [("user", "n 1")]}


def test_case_without_messages_is_an_error_if_a_prompt_inserts_them() -> None:
    text = problems(" [text, {id: s, system: hi}]", "evalcases: [{id: a, expected_outcome: ok}]")
    assert "the key 'input' is missing" in text


def test_files_of_messages_are_attached_from_the_folder_of_the_eval_file() -> None:
    write({"note.txt": "N"})
    parts = "[{type: file, value: note.txt}, {type: text, value: '{{ topic }}'}]"
    prompts = f" [{{id: m, messages: [{{role: user, content: {parts}}}]}}]"
    ((_, content),) = sent(prompts)["m"]
    assert [getattr(part, "text", None) for part in content] == ["N", "tea"]  # type: ignore[attr-defined]


TWO = "\n- {id: first, messages: [{role: user, content: One}]}\n- {id: second, messages: [{role: user, content: Two}]}"


def test_a_case_may_choose_prompts() -> None:
    assert list(sent(TWO, f"{CASE}    execution: {{prompts: [second]}}\n")) == ["second"]


@pytest.mark.parametrize(
    ("before", "known"), [(f"prompts:{TWO}", "known: first, second"), ("", "the suite has no `prompts`")]
)
def test_an_unknown_prompt_of_a_case_is_an_error_with_its_place(before: str, known: str) -> None:
    Path("suite.yaml").write_text(f"{before}{CASE}    execution: {{prompts: [secnd]}}\n")
    with pytest.raises(EvalFileError, match=rf"execution.prompts\[0\]  unknown prompt 'secnd'; {known}"):
        load_suite("suite.yaml", specs=SPECS)


def warned(prompts: str, cases: str = CASE) -> list[str]:
    """Return the problems that `agentv check` finds in a suite with these prompts."""
    Path("suite.yaml").write_text(f"prompts:{prompts}\n{cases}")
    checked = check_paths(["suite.yaml"], cwd=Path.cwd(), env={}, specs=SPECS)
    return [f"{problem.path}:{problem.line}: {problem.message}" for problem in checked.problems]


SAME = "prompt 'b' sends the same request as prompt 'a' for every case"


@pytest.mark.parametrize(
    "prompts",
    [
        " [{id: a, text: '{{ input }}'}, {id: b, text: '{{ input }}'}]",
        ' [{id: a, system: "Be {{ tone }}."}, {id: b, system: Be kind.}]',
        " [{id: a, messages: [{case: messages}]}, {id: b, text: 'About tea?'}]",
    ],
    ids=["the same text", "the same once filled", "another form"],
)
def test_check_warns_about_prompts_that_send_the_same_request(prompts: str) -> None:
    (problem,) = warned(prompts)
    assert problem.startswith("suite.yaml:1:")
    assert SAME in problem


def test_check_does_not_warn_about_prompts_that_differ_for_one_case() -> None:
    other = CASE + "  - {id: b, expected_outcome: ok, vars: {tone: rude}, input_messages: [{role: user, content: x}]}\n"
    prompts = ' [{id: a, system: "Be {{ tone }}."}, {id: b, system: Be kind.}]'
    assert len(warned(prompts)) == 1
    assert warned(prompts, other) == []


def test_check_names_each_of_several_equal_prompts_once() -> None:
    first, second = warned(" [{id: a, system: x}, {id: b, system: x}, {id: c, system: x}]")
    assert SAME in first
    assert "prompt 'c' sends the same request as prompt 'a'" in second

"""Variables in eval files: what is filled, with which values, and what is not."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.loading.specs import SPECS

from agentv.engine.plugins.loading import load_specs
from agentv.loading.models.reader import open_yaml
from agentv.loading.suites.suites import load_suite
from agentv.loading.suites.variables import fill_in_place
from agentv.registry import Specs
from agentv.types.cases import EvalCase, EvalSuite, EvaluatorConfig
from agentv.types.errors import EvalFileError

ALL = load_specs()


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def suite(text: str, specs: Specs = SPECS, variables: Mapping[str, str] | None = None) -> EvalSuite:
    Path("suite.yaml").write_text(text)
    return load_suite("suite.yaml", specs=specs, variables=variables)


def only(text: str, specs: Specs = SPECS, variables: Mapping[str, str] | None = None) -> EvalCase:
    (case,) = suite(text, specs, variables).cases
    assert isinstance(case, EvalCase)
    return case


def configs(case: EvalCase) -> list[EvaluatorConfig]:
    return [each for each in case.evaluators or () if isinstance(each, EvaluatorConfig)]


def problems(text: str, specs: Specs = SPECS) -> list[str]:
    with pytest.raises(EvalFileError) as caught:
        suite(text, specs)
    return str(caught.value).splitlines()


CASE = """
evalcases:
  - id: a
    vars: {who: Ada, order: {id: 7, items: [pen]}, n: 3, yes: true}
    expected_outcome: "{{ who }} gets it in {{ place }}"
    metadata: {n: "{{ n }}", text: "n={{ n }}"}
    input_messages:
      - {role: system, content: "Be {{ tone | upper }}"}
      - {role: user, content: "{{ order }}"}
      - {role: user, content: [{type: text, value: "{{ n }}"}]}
      - {role: user, content: "{{ n }}"}
    expected_messages: [{role: assistant, tool_calls: [{tool: get, input: {id: "{{ order.id }}"}}]}]
"""


def test_every_text_of_a_case_is_filled_and_a_single_variable_keeps_its_type() -> None:
    case = only("vars: {place: Rome, tone: kind, who: Bob}\n" + CASE, variables={"place": "Oslo"})
    assert case.expected_outcome == "Ada gets it in Oslo"
    assert [message.content for message in case.input_messages[:2]] == ["Be KIND", {"id": 7, "items": ["pen"]}]
    assert repr(case.input_messages[2].content) == "(TextPart(text='3'),)"
    assert case.input_messages[3].content == "3"
    assert case.metadata == {"n": 3, "text": "n=3"}
    assert case.expected_messages[0].tool_calls[0].input == {"id": 7}


def test_without_declared_variables_nothing_is_filled() -> None:
    text = "evalcases: [{id: a, expected_outcome: '{{ x }}', input_messages: [{role: user, content: '{% if %}'}]}]\n"
    case = only(text)
    assert (case.expected_outcome, case.input_messages[0].content) == ("{{ x }}", "{% if %}")


def test_suite_evaluators_are_filled_for_each_case() -> None:
    text = """
execution:
  evaluators: [{name: v, type: contains, value: "{{ who }} {% raw %}{{ x }}{% endraw %}"}]
evalcases:
  - {id: a, vars: {who: Ada}, input_messages: [{role: user, content: Hi}]}
  - {id: b, vars: {who: "{{ who }}"}, input_messages: [{role: user, content: Hi}]}
  - {id: c, evaluators: [{name: own, type: contains, value: x}], input_messages: [{role: user, content: Hi}]}
"""
    first, second, third = (case for case in suite(text).cases if isinstance(case, EvalCase))
    assert [configs(case)[0].settings["value"] for case in (first, second, third)] == [
        "Ada {{ x }}",
        "{{ who }} {{ x }}",
        "x",
    ]


BY_TOOL = """
vars: {tool: refund, other: refund, blank: "", many: [a]}
evalcases: [{id: a, input_messages: [{role: user, content: Hi}], expected_outcome: x}]
evaluators: [{name: once, type: tool_trajectory, maximums: KEYS}]
"""


def test_variables_in_keys_are_filled() -> None:
    (config,) = configs(only(BY_TOOL.replace("KEYS", "{'{{ tool }}': 1, 'get_{{ tool }}': 2}"), ALL))
    assert config.settings == {"maximums": {"refund": 1, "get_refund": 2}}


def test_variables_in_keys_of_a_case_are_filled() -> None:
    text = BY_TOOL.replace("expected_outcome: x", "expected_outcome: x, metadata: {'{{ tool }}': '{{ other }}'}")
    assert only(text.replace("KEYS", "{a: 1}"), ALL).metadata == {"refund": "refund"}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("{'{{ toool }}': 1}", "suite.yaml:4:61  $.evaluators[0].maximums.{{ toool }}  there is no variable 'toool'"),
        ("{'{{ tool }}': 1, '{{ other }}': 2}", "a second key 'refund'"),
        ("{'{{ blank }}': 1}", "the key '{{ blank }}' is empty"),
        ("{'{{ many }}': 1}", "the key '{{ many }}' must become a text, but is a list"),
        ("{'{{ tool }}': x}", "suite.yaml:4:75  $.evaluators[0].maximums.refund"),
    ],
)
def test_keys_that_cannot_be_filled_are_errors_with_their_place(keys: str, said: str) -> None:
    assert said in "\n".join(problems(BY_TOOL.replace("KEYS", keys), ALL))


def test_a_key_from_data_does_not_become_a_command() -> None:
    line = "metadata: {a: 1}, evaluators: [{name: j, type: code_judge, '{{ key }}': '{{ code }}'}]"
    text = f"vars: {{key: script, code: 'rm x'}}\nevalcases: [{{id: a, input_messages: [], {line}}}]"
    assert "variables are not filled in workspaces, commands" in "\n".join(problems(text, ALL))


def test_a_single_variable_becomes_the_type_that_a_setting_needs() -> None:
    text = """
vars: {low: "3", text: 42}
execution:
  evaluators:
    - {name: n, type: length, max: "{{ low }}"}
    - {name: c, type: regex, pattern: "{{ text }}"}
evalcases: [{id: a, input_messages: [{role: user, content: Hi}]}]
"""
    length, pattern = configs(only(text, ALL))
    assert (length.settings["max"], pattern.settings["pattern"]) == (3, "42")


JUDGE = """
vars: {topic: cats, question: mine, rest: "{{ candidate_answer }}"}
execution:
  evaluators: [{name: j, type: llm_judge, prompt: PROMPT}]
evalcases: [{id: a, input_messages: [{role: user, content: Hi}]}]
"""


def test_a_judge_gets_the_variables_that_its_prompt_uses() -> None:
    (judge,) = configs(only(JUDGE.replace("PROMPT", "'{{ topic | upper }} {{ vars.question }} {{ answer }}'"), ALL))
    assert judge.settings["prompt"] == "{{ topic | upper }} {{ vars.question }} {{ answer }}"
    assert judge.settings["vars"] == {"topic": "cats", "question": "mine"}
    Path("judge.md").write_text("{{ topic }} {{ answer }}")
    (judge,) = configs(only(JUDGE.replace("PROMPT", "judge.md"), ALL))
    assert judge.settings["vars"] == {"topic": "cats"}


def test_a_built_in_name_wins_in_a_prompt_with_a_warning() -> None:
    found = suite(JUDGE.replace("PROMPT", "'{{ question }} {{ answer }}'"), ALL)
    (warning,) = found.warnings
    assert warning.render() == (
        "suite.yaml:4:51  $.execution.evaluators[0].prompt  warning: in a prompt, {{ question }} is the built-in "
        "variable, not your variable 'question'; write {{ vars.question }} for the variable"
    )


def test_criteria_of_the_suite_are_filled_for_each_case() -> None:
    text = """
vars: {topic: cats}
criteria: [{name: fit, description: "About {{ topic }}"}, {name: tone}]
evalcases:
  - id: a
    input_messages: [{role: user, content: Hi}]
    evaluators: [{name: fit, type: contains, value: x, criterion: fit}]
"""
    assert [(each.name, each.description) for each in only(text).criteria] == [("fit", "About cats"), ("tone", "")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "expected_outcome: '{{ whoo }}'",
            (
                "suite.yaml:4:76  $.evalcases[0].expected_outcome  there is no variable 'whoo'; known: who; to keep it "
                "as text, write {% raw %}…{% endraw %}; did you mean 'who'?"
            ),
        ),
        ("expected_outcome: '{{ who'", None),
        ("expected_outcome: '{{ who | shout }}'", "'{{ who | shout }}' cannot be read; filters: json, upper, lower"),
        ("evaluators: [{name: j, type: code_judge, script: 'echo {{ who }}'}]", "not filled in workspaces, commands"),
        ("execution: {workspace: {template: '{{ who }}'}}, expected_outcome: x", "not filled in workspaces, commands"),
        ("expected_outcome: x, vars: {'a b': 1}", "'a b' is not a valid variable name"),
        ("expected_outcome: x, vars: [1]", "must be an object"),
        ("evaluators: [{name: j, type: llm_judge, prompt: '{{ answer }} {{ whoo }}'}]", "unknown variable {{ whoo }}"),
        ("evaluators: [{name: j, type: llm_judge, prompt: '{{ answer }} {{ who | x }}'}]", "cannot be read"),
    ],
)
def test_what_cannot_be_filled_is_an_error_with_its_place(line: str, said: str | None) -> None:
    text = f"""
vars: {{who: Ada}}
evalcases:
  - {{id: a, input_messages: [{{role: user, content: Hi}}], {line}}}
"""
    if said is None:
        assert only(text, ALL).expected_outcome == "{{ who"
    else:
        (found,) = problems(text, ALL)
        assert said in found


def test_a_declared_variable_without_a_value_must_be_given() -> None:
    text = (
        "vars: {who: }\nevalcases: [{id: a, expected_outcome: x, input_messages: [{role: user, content: '{{ who }}'}]}]"
    )
    assert "the variable 'who' has no value" in problems(text)[0]
    assert only(text, variables={"who": "Eve"}).input_messages[0].content == "Eve"


def test_an_undefined_name_may_be_a_warning_that_leaves_its_place() -> None:
    Path("case.yaml").write_text("cases:\n  - {text: 'Hi {{ who }} and {{ name }}', vars: {a: '{{ who }}'}}\n")
    reader = open_yaml(Path("case.yaml"))
    fill_in_place(reader, ("cases", 0), {"name": "Ada"}, "warning")
    assert reader.document.at(("cases", 0)) == {"text": "Hi {{ who }} and Ada", "vars": {"a": "{{ who }}"}}
    assert [(each.severity, each.line, each.column) for each in reader.problems] == [("warning", 2, 12)]


NO_OUTCOME = "evalcases: [{id: a, input_messages: [{role: user, content: Hi}], LINE}]"


@pytest.mark.parametrize(
    ("line", "is_needed"),
    [
        ("tags: []", True),
        ("expected_messages: [{role: assistant, content: Yes}]", False),
        ("evaluators: [{name: c, type: contains, value: x}]", False),
        ("rubrics: [Is kind]", False),
        ("evaluators: [{name: c, type: contains, value: x}, {name: j, type: llm_judge}]", True),
        ("criteria: [{name: j}], evaluators: [{name: j, type: llm_judge}]", False),
        ("evaluators: [{name: j, type: llm_judge, prompt: '{{ answer }}'}]", False),
        ("evaluators: [{name: j, type: llm_judge, prompt: '{{ answer }} {{ expected_outcome }}'}]", True),
        (
            (
                "expected_messages: [{role: assistant, content: Yes}], "
                "evaluators: [{name: j, type: llm_judge, prompt: '{{ answer }} {{ expectedOutcome }}'}]"
            ),
            True,
        ),
        ("evaluators: [{name: c, type: composite, evaluators: [{name: j, type: llm_judge}]}]", True),
        ("evaluators: [{name: c, type: code_judge, script: 'true'}]", False),
    ],
)
def test_an_expected_outcome_is_needed_only_by_evaluators_that_read_it(line: str, is_needed: bool) -> None:
    text = NO_OUTCOME.replace("LINE", line)
    if not is_needed:
        assert only(text, ALL).expected_outcome == ""
        return
    (found,) = problems(text, ALL)
    assert "the key 'expected_outcome' is missing: evaluator '" in found

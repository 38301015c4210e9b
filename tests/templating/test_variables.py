from hypothesis import given
from hypothesis import strategies as st

from agentv.templating.variables import JUDGE_VARIABLES, fill, template_problems, variable_names

VALUES = {"question": "Q?", "candidate_answer": "{{ reference_answer }}", "reference_answer": "R"}


def test_names_are_filled_with_or_without_blanks() -> None:
    assert fill("{{question}}|{{ question }}|{{  question}}", VALUES.get) == "Q?|Q?|Q?"


def test_what_a_value_brings_along_is_not_filled_again() -> None:
    assert fill("{{ candidate_answer }} {{ reference_answer }}", VALUES.get) == "{{ reference_answer }} R"


def test_filling_in_turn_would_leak_the_reference_into_the_answer() -> None:
    naive = "{{ candidate_answer }}"
    for name, value in VALUES.items():
        naive = naive.replace(f"{{{{ {name} }}}}", value)
    assert naive == "R"
    assert fill("{{ candidate_answer }}", VALUES.get) == "{{ reference_answer }}"


@given(st.text(), st.text())
def test_any_value_arrives_unchanged(before: str, value: str) -> None:
    template = before.replace("{", "") + "{{ x }}"
    assert fill(template, {"x": value}.get) == before.replace("{", "") + value


@given(st.text(alphabet="{} abc\n"))
def test_any_template_without_known_names_stays_as_it_is(template: str) -> None:
    assert fill(template, lambda _name: None) == template


def test_values_are_fetched_once_and_reported() -> None:
    names: list[str] = []

    def value_of(name: str) -> str | None:
        names.append(name)
        return VALUES.get(name)

    filled = fill("{{ question }} {{ nope }} {{ question }} {{ nope }}", value_of)
    assert names == ["question", "nope"]
    assert filled == "Q? {{ nope }} Q? {{ nope }}"


def test_names_of_a_template_come_once_and_in_order() -> None:
    assert variable_names("{{ b }} {{ a }} {{ b }} {{ context.x.0 }} {{}} { c }") == ("b", "a", "context.x.0")


def test_a_usual_template_has_no_problem() -> None:
    assert template_problems("{{ question }} {{ candidate_answer }} {{ context.policy }}") == ()
    assert template_problems("{{ output_messages }}") == ()
    for name in ("response", "output", "answer", "candidateAnswer", "outputMessages", "file_changes"):
        assert template_problems(f"{{{{{name}}}}} {{{{ groundTruth }}}} {{{{ criteria }}}}") == ()


def test_an_unknown_name_is_a_problem_that_lists_the_known_ones() -> None:
    (problem,) = template_problems("{{ candidate_answer }} {{ anwser }}")
    assert problem.startswith(
        "unknown variable {{ anwser }} (did you mean {{ answer }}?); known: question, system_prompt"
    )
    assert all(name in problem for name in JUDGE_VARIABLES)
    assert template_problems("{{ candidate_answer }} {{ anwser }}", allow_unknown=True) == ()


def test_a_name_with_filters_is_unknown_only_without_a_value() -> None:
    known = "{{ candidate_answer }} {{tone|upper}} {{mood|default(calm)}} {{mood|upper|default(calm)}}"
    assert template_problems(known, variables={"tone": "kind"}) == ()
    (problem,) = template_problems("{{ candidate_answer }} {{tnoe|upper}}", variables={"tone": "kind"})
    assert problem.startswith("unknown variable {{ tnoe|upper }}")
    assert fill("{{tone|upper}} {{tone}}", VALUES.get, {"tone": "kind"}) == "KIND kind"


def test_a_template_without_the_answer_is_a_problem() -> None:
    (problem,) = template_problems("Is {{ question }} hard?", allow_unknown=True)
    assert "uses none of {{ candidate_answer }}, {{ output_messages }}, {{ conversation }}, {{ diff }}" in problem

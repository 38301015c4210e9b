from hypothesis import given
from hypothesis import strategies as st

from agentv.templating.variables import JUDGE_VARIABLES, fill, template_warnings, variable_names

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


def test_a_usual_template_gives_no_warning() -> None:
    assert template_warnings("{{ question }} {{ candidate_answer }} {{ context.policy }}") == ()
    assert template_warnings("{{ output_messages }}") == ()


def test_an_unknown_name_is_a_warning_with_the_names_there_are() -> None:
    (warning,) = template_warnings("{{ candidate_answer }} {{ anwser }}")
    assert warning.startswith("unknown variable {{ anwser }}, left as it is; known: question, expected_outcome")
    assert all(name in warning for name in JUDGE_VARIABLES)


def test_a_template_without_the_answer_is_a_warning() -> None:
    (warning,) = template_warnings("Is {{ question }} hard?")
    assert "uses none of {{ candidate_answer }}, {{ output_messages }}, {{ conversation }}, {{ diff }}" in warning

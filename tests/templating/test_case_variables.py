"""Variables of eval files: paths, filters, types, literals, and faults."""

import pytest

from agentv.templating.case_variables import Fault, fill_text, has_variables, prompt_faults, used_names
from agentv.types.json_value import JsonValue

VALUES: dict[str, JsonValue] = {
    "name": "Ada",
    "n": 30,
    "order": {"id": 7, "items": [{"name": "pen"}]},
    "nothing": None,
    "quoted": "{{ name }} ${{ HOME }} {% raw %}",
    "question": "What?",
    "metadata.level": "hard",
}


def filled(text: str) -> JsonValue:
    faults: list[Fault] = []
    value = fill_text(text, VALUES, faults.append)
    assert faults == []
    return value


def fault(text: str) -> Fault:
    faults: list[Fault] = []
    assert fill_text(text, VALUES, faults.append) == text
    (found,) = faults
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Hello {{ name }}!", "Hello Ada!"),
        ("{{name}}", "Ada"),
        ("{{ name }}\n", "Ada\n"),
        ("{{ order.id }} and {{ order.items.0.name }}", "7 and pen"),
        ("{{ metadata.level }}", "hard"),
        ("{{ vars.question }}", "What?"),
        ("{{ n }}", 30),
        ("{{ order }}", {"id": 7, "items": [{"name": "pen"}]}),
        ("{{ order.items }} ", [{"name": "pen"}]),
        ("of {{ order.items }}", 'of [{"name":"pen"}]'),
        ("{{ order.items | json }}", '[{"name":"pen"}]'),
        ("{{ nothing | json }}", "null"),
        ("{{ name | upper }}{{ name | lower }}", "ADAada"),
        ("{{ name|upper|lower }}", "ada"),
        ("{{ missing | default('a | b') }}", "a | b"),
        ('{{ missing | default("x") | upper }}', "X"),
        ("{{ missing | default(3) }}", 3),
        ("{{ nothing | default(none) }}", "none"),
        ("{{ name | default('x') }}", "Ada"),
        ("{{ missing.deep | default('') }}", ""),
        ("{% raw %}{{ name }}{% endraw %} {{ name }}", "{{ name }} Ada"),
        ("${{ name }} and ${{name}}", "${{ name }} and ${{name}}"),
        ("{{ quoted }}", "{{ name }} ${{ HOME }} {% raw %}"),
        ("-{{ quoted }}", "-{{ name }} ${{ HOME }} {% raw %}"),
        ('{"a": {"b": {}}} {{"x": 1}} {{ 1 }} 100 %}', '{"a": {"b": {}}} {{"x": 1}} {{ 1 }} 100 %}'),
    ],
)
def test_a_text_is_filled(text: str, value: JsonValue) -> None:
    assert filled(text) == value


def test_trim_removes_white_space_around_a_value() -> None:
    assert fill_text("[{{ x | trim }}]", {"x": " a \n"}, lambda fault: pytest.fail(fault.message)) == "[a]"


@pytest.mark.parametrize(
    ("text", "message", "is_undefined"),
    [
        ("{{ nmae }}", "there is no variable 'nmae'", True),
        ("Hi {{ order.total }}", "there is no variable 'order.total'", True),
        ("{{ nothing }}", "the variable 'nothing' has no value", True),
        ("{{ name | reverse }}", "'{{ name | reverse }}' cannot be read", False),
        ("{{ name | upper(1) }}", "'{{ name | upper(1) }}' cannot be read", False),
        ("{{ name | default }}", "'{{ name | default }}' cannot be read", False),
        ("{{ name } is", "'{{ name }' does not end with '}}'", False),
        ("{% raw %} a", "{% raw %} has no {% endraw %}", False),
        ("{% if name %}", "'{% if … %}' is not supported: only {% raw %} is, and code is not evaluated", False),
    ],
)
def test_what_cannot_be_filled_is_reported_and_stays(text: str, message: str, is_undefined: bool) -> None:
    found = fault(text)
    assert (found.message, found.is_undefined) == (message, is_undefined)
    assert found.allowed or "endraw" in found.message


def test_many_open_raw_tags_are_read_in_linear_time() -> None:
    text = "{% raw %}" * 100_000
    reported: list[Fault] = []
    assert fill_text(text, {}, reported.append) == text
    assert prompt_faults(text, lambda _name: False, {}) == tuple(reported)
    assert [each.message for each in reported] == ["{% raw %} has no {% endraw %}"]


def test_an_undefined_name_has_a_suggestion() -> None:
    assert fault("{{ nmae }}").suggestion == "name"


def test_names_in_use_are_listed_without_their_paths() -> None:
    text = "{{ a.b }} {{ vars.c | upper }} {{ a }} ${{ D }} {% raw %}{{ e }}{% endraw %}"
    assert used_names(text) == ("a", "c")
    assert (has_variables(text), has_variables("${{ D }} {x}")) == (True, False)

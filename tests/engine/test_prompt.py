"""The prompt made from a case's messages (docs/reference/eval-files.md)."""

from agentv.engine.planning.prepared_case import build_prompt
from agentv.types.cases import EvalCase
from agentv.types.messages import ChatMessage, FilePart, Message, Role, TextPart, ToolCall


def file(path: str, text: str | None, *, guideline: bool = False) -> FilePart:
    return FilePart(
        path, f"/root/{path}", text, sha256="0" * 64, size=1, media_type="text/plain", is_guideline=guideline
    )


def says(role: Role, *parts: str | FilePart, calls: tuple[ToolCall, ...] = ()) -> Message:
    content = tuple(TextPart(part) if isinstance(part, str) else part for part in parts)
    return Message(role, content or None, tool_calls=calls)


def case(*messages: Message) -> EvalCase:
    return EvalCase("c", messages)


def test_one_visible_message_is_the_prompt_without_markers() -> None:
    prompt = build_prompt(EvalCase("c", "What is 2 + 2?"), quotes_paths_only=False)
    assert prompt.question == "What is 2 + 2?"
    assert prompt.chat_prompt is None


def test_prompt_of_two_messages_has_role_markers_and_blank_lines() -> None:
    prompt = build_prompt(case(says("system", "Be brief."), says("user", "Hello")), quotes_paths_only=False)
    assert prompt.question == "@[System]:\nBe brief.\n\n@[User]:\nHello"
    assert prompt.chat_prompt == (ChatMessage("system", "Be brief."), ChatMessage("user", "Hello"))


def test_an_assistant_message_alone_brings_role_markers() -> None:
    assert build_prompt(case(says("assistant", "Hi")), quotes_paths_only=False).question == "@[Assistant]:\nHi"


def test_a_guideline_leaves_a_mark_where_it_stood_and_travels_apart() -> None:
    prompt = build_prompt(
        case(says("user", "Before", file("rules.instructions.md", "Be kind.", guideline=True), "After")),
        quotes_paths_only=False,
    )
    assert prompt.question == "Before\n<Attached: rules.instructions.md>\nAfter"
    assert prompt.guidelines == "=== rules.instructions.md ===\nBe kind."
    assert prompt.guideline_paths == ("/root/rules.instructions.md",)
    assert prompt.file_paths == ()


def test_a_message_of_guidelines_only_is_not_visible_and_brings_no_markers() -> None:
    guideline = file("rules.instructions.md", "Be kind.", guideline=True)
    prompt = build_prompt(case(says("system", guideline), says("user", "Hello")), quotes_paths_only=False)
    assert prompt.question == "<Attached: rules.instructions.md>\n\nHello"
    assert prompt.chat_prompt is None


def test_prompt_quotes_files_for_models_and_names_them_for_agents() -> None:
    prompted = case(says("user", "Review", file("order.json", '{"id": 7}')))
    assert (
        build_prompt(prompted, quotes_paths_only=False).question
        == 'Review\n<file path="order.json">\n{"id": 7}\n</file>'
    )
    assert build_prompt(prompted, quotes_paths_only=True).question == 'Review\n<file: path="order.json">'
    assert build_prompt(prompted, quotes_paths_only=True).file_paths == ("/root/order.json",)


def test_a_binary_file_is_named_never_pasted() -> None:
    prompted = case(says("user", "Look", file("photo.png", None)))
    assert build_prompt(prompted, quotes_paths_only=False).question == 'Look\n<file: path="photo.png">'


def test_leading_system_messages_merge_and_end_with_the_guidelines() -> None:
    guideline = file("rules.instructions.md", "Be kind.", guideline=True)
    prompt = build_prompt(
        case(says("system", "One."), says("system", "Two.", guideline), says("user", "Hello")), quotes_paths_only=False
    )
    assert prompt.chat_prompt is not None
    assert prompt.chat_prompt[0] == ChatMessage(
        "system",
        "One.\n\nTwo.\n<Attached: rules.instructions.md>\n\n"
        "[[ ## Guidelines ## ]]\n\n=== rules.instructions.md ===\nBe kind.",
    )


def test_guidelines_reach_the_model_without_a_system_message_too() -> None:
    guideline = file("rules.instructions.md", "Be kind.", guideline=True)
    prompt = build_prompt(case(says("user", "Hi", guideline), says("assistant", "Yes?")), quotes_paths_only=False)
    assert prompt.chat_prompt is not None
    assert prompt.chat_prompt[0].role == "system"
    assert "Be kind." in prompt.chat_prompt[0].content


def test_chat_prompt_turns_later_system_and_tool_turns_into_assistant() -> None:
    prompt = build_prompt(
        case(
            says("user", "Go"),
            says("system", "Now in French."),
            says("tool", "42"),
            says("assistant"),
            says("user", "?"),
        ),
        quotes_paths_only=False,
    )
    assert prompt.chat_prompt == (
        ChatMessage("user", "Go"),
        ChatMessage("assistant", "@[System]:\nNow in French."),
        ChatMessage("assistant", "@[Tool]:\n42"),
        ChatMessage("user", "?"),
    )


def test_prompt_shows_objects_as_json_and_keeps_fenced_code() -> None:
    assert (
        build_prompt(case(Message("user", {"a": [1]})), quotes_paths_only=False).question
        == '{\n  "a": [\n    1\n  ]\n}'
    )
    code = "Run\n```py\nprint(1)\n```\nplease"
    assert build_prompt(case(says("user", code)), quotes_paths_only=False).question == code


def test_prompt_contains_tool_calls_of_earlier_turns() -> None:
    prompted = case(says("user", "Go"), says("assistant", calls=(ToolCall("lookup", {"id": 7}, output="open"),)))
    assert (
        '{"tool":"lookup","input":{"id":7},"output":"open"}' in build_prompt(prompted, quotes_paths_only=False).question
    )


def test_the_system_messages_that_open_a_prompt_are_also_known_apart() -> None:
    prompt = build_prompt(
        case(says("system", "One."), says("system", "Two."), says("user", "Hi"), says("assistant", "Yes?")),
        quotes_paths_only=False,
    )
    assert prompt.question == "@[System]:\nOne.\n\n@[System]:\nTwo.\n\n@[User]:\nHi\n\n@[Assistant]:\nYes?"
    assert prompt.system_prompt == "One.\n\nTwo."
    assert prompt.after_system is not None
    assert prompt.after_system.question == "@[User]:\nHi\n\n@[Assistant]:\nYes?"
    assert prompt.after_system.chat_prompt == (ChatMessage("user", "Hi"), ChatMessage("assistant", "Yes?"))


def test_a_prompt_of_system_messages_only_has_no_system_prompt_apart() -> None:
    prompt = build_prompt(case(says("system", "Name a colour.")), quotes_paths_only=False)
    assert (prompt.question, prompt.system_prompt, prompt.after_system) == ("Name a colour.", "", None)


def test_a_system_message_of_guidelines_only_stays_in_the_question() -> None:
    guideline = file("rules.instructions.md", "Be kind.", guideline=True)
    prompt = build_prompt(case(says("system", guideline), says("user", "Hello")), quotes_paths_only=False)
    assert prompt.after_system is None

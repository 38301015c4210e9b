from tests.support.asking import make_request

from agentv.providers.agents.base import build_agent_prompt


def test_the_prompt_names_guidelines_then_files_then_asks() -> None:
    request = make_request(
        "Review it.",
        guideline_files=("/repo/style.instructions.md",),
        input_files=("/repo/an order.json", "/repo/b.txt"),
    )

    assert build_agent_prompt(request) == (
        "Read all guideline files:\n"
        "* [style.instructions.md](file:///repo/style.instructions.md)\n"
        "\n"
        "Read all input files:\n"
        "* [an order.json](file:///repo/an%20order.json)\n"
        "* [b.txt](file:///repo/b.txt)\n"
        "\n"
        "Before you do anything else, read all of the files listed above, each one to its end. If one of them is "
        "missing or cannot be read, say which one in your answer, and go on with the others.\n"
        "\n"
        "[[ ## user_query ## ]]\n"
        "\n"
        "Review it."
    )


def test_without_files_there_is_only_the_question() -> None:
    assert build_agent_prompt(make_request("Review it.")) == "[[ ## user_query ## ]]\n\nReview it."


def test_the_question_stands_as_it_is() -> None:
    question = "[[ ## user_query ## ]] {PROMPT} * [x](file:///y)\n  \n"

    assert build_agent_prompt(make_request(question)).endswith("\n\n" + question)

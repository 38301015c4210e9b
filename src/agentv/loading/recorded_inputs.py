"""One logged line → an input of the criteria door, with the file and line in every complaint."""

from msgspec.structs import replace

from agentv.loading.json_lines import parse_json, quick_json
from agentv.loading.text_files import MAX_BYTES, decode
from agentv.types.errors import EvalFileError
from agentv.types.evaluation_input import EvaluationInput

MAX_LINE_BYTES = MAX_BYTES
"""How long one line may be."""


def read_recorded_input(data: bytes, file: str, number: int) -> EvaluationInput:
    """Return the input that a line holds, keys in either spelling. Raises EvalFileError with every problem."""
    text = decode(data, file, first_line=number)
    document = quick_json(text, file, number)
    if document is None:
        document, problems = parse_json(text, file, number)
        if document is None or problems:
            raise EvalFileError(file, problems)
    try:
        return EvaluationInput.from_dict(document.value)
    except EvalFileError as error:
        problems = tuple(replace(each, path=file, line=number, column=1) for each in error.problems)
        raise EvalFileError(file, problems) from None

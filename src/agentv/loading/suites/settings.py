"""The place of a suite's settings: the top of its file, or for some `execution`, their place in files of AgentV."""

from msgspec.structs import asdict

from agentv.loading.files.documents import JsonPath, child
from agentv.loading.models.eval_files import SuiteExecutionModel, SuiteModel
from agentv.loading.models.reader import Reader
from agentv.types.json_value import JsonValue

_EXECUTION = "execution"


def setting_path(reader: Reader, name: str) -> JsonPath:
    """Return the path of a setting as written, under `execution` if it is there only; else its path at the top."""
    key = SuiteExecutionModel.names().spelling_in(reader.document.at((_EXECUTION,)), name)
    if SuiteModel.names().spelling_in(reader.document.value, name) is None and key is not None:
        return (_EXECUTION, key)
    return (name,)


def suite_settings(model: SuiteModel) -> SuiteExecutionModel:
    """Return the settings of a suite that may be at either place. `targets` are those under `execution` only."""
    under = asdict(model.execution or SuiteExecutionModel())
    top = {name: value for name in under if name != "targets" and (value := getattr(model, name)) is not None}
    return SuiteExecutionModel(**{**under, **top})


def check_places(reader: Reader) -> None:
    """Record an error for each setting that is at both places of an eval file with different values."""
    top: JsonValue = reader.document.value
    execution = child(top, _EXECUTION)
    for name in SuiteExecutionModel.names().canonical:
        outer = SuiteModel.names().spelling_in(top, name)
        inner = SuiteExecutionModel.names().spelling_in(execution, name)
        if outer is None or inner is None or child(top, outer) == child(execution, inner):
            continue
        document = reader.document
        other = document.mark((_EXECUTION, inner), on_key=True)
        reader.error(
            (outer,),
            f"{outer!r} is also given under `execution`, in {document.path}:{other.line}, with another value",
            allowed="keep the one at the top of the file",
            on_key=True,
        )

"""A case prepared for one target: prompt, request, keys and evaluators, computed once for each row."""

from msgspec import Struct

from agentv.engine.planning.plan import CaseTask
from agentv.engine.planning.prompt import build_prompt
from agentv.engine.running.context import criteria_of
from agentv.scoring.keys.identity import CaseKeys, answer_key, keys_of
from agentv.scoring.results.applicable import applicable_evaluators
from agentv.types.cases import EvalCase, EvaluatorLike
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.evaluation import PromptInputs
from agentv.types.provider import ProviderRequest
from agentv.types.records.answer import ResultKey


class PreparedCase(Struct, frozen=True):
    """A case prepared for one target.

    `result_key` is the position of its row in the plan. Two requests with the same `answer_key` are interchangeable:
    an answer to one can stand for the other. `single_form` is True if the case names its one evaluator in the older
    form.
    """

    task: CaseTask
    case: EvalCase
    prompt: PromptInputs
    request: ProviderRequest
    result_key: ResultKey
    keys: CaseKeys
    answer_key: str
    criteria: tuple[EvaluationCriteria, ...]
    evaluators: tuple[EvaluatorLike, ...]
    single_form: bool


def result_key_of(task: CaseTask) -> ResultKey:
    """Return the position of a task's row in the plan."""
    return ResultKey(task.suite.path, task.case.id, task.target.name, task.trial)


def prepare_case(task: CaseTask, case: EvalCase, *, target_key: str, names_files: bool) -> PreparedCase:
    """Return the case of a task, prepared for the target that has the key `target_key`."""
    prompt = build_prompt(case, names_files=names_files)
    request = ProviderRequest(
        question=prompt.question,
        chat_prompt=prompt.chat_prompt,
        system_prompt=task.target.system_prompt,
        guidelines=prompt.guidelines,
        guideline_files=prompt.guideline_paths,
        input_files=prompt.file_paths,
        eval_case_id=case.id,
        eval_dir=task.suite.base_dir,
        trial=task.trial,
        metadata=case.metadata,
        timeout_s=task.target.try_timeout_s,
    )
    criteria = criteria_of(case, task.suite)
    evaluators, single_form = applicable_evaluators(case, task.suite)
    keys = keys_of(case, criteria)
    key = answer_key(keys.question, target_key, task.trial)
    return PreparedCase(
        task=task,
        case=case,
        prompt=prompt,
        request=request,
        result_key=result_key_of(task),
        keys=keys,
        answer_key=key,
        criteria=criteria,
        evaluators=evaluators,
        single_form=single_form,
    )

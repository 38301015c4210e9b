"""A case as one target is asked it, with what its answer is held to: worked out once, used until its row is kept."""

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


class Question(Struct, frozen=True):
    """A case as one target is asked it.

    `slot` is where its row belongs, `answer_key` what makes an answer to it the same one as before. `single_form` says
    that its one evaluator was written in the older form.
    """

    task: CaseTask
    case: EvalCase
    prompt: PromptInputs
    request: ProviderRequest
    slot: ResultKey
    keys: CaseKeys
    answer_key: str
    criteria: tuple[EvaluationCriteria, ...]
    evaluators: tuple[EvaluatorLike, ...]
    single_form: bool


def slot_of(task: CaseTask) -> ResultKey:
    """Return where a task's row belongs in the plan."""
    return ResultKey(task.suite.path, task.case.id, task.target.name, task.trial)


def make_question(task: CaseTask, case: EvalCase, *, target_key: str, names_files: bool) -> Question:
    """Return what a target, known by its key, is asked for one task."""
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
    return Question(
        task=task,
        case=case,
        prompt=prompt,
        request=request,
        slot=slot_of(task),
        keys=keys,
        answer_key=key,
        criteria=criteria,
        evaluators=evaluators,
        single_form=single_form,
    )

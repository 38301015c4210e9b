"""inspect_ai: a Task with `includes`, or `model_graded_qa`, with its default log."""

from collections.abc import Callable

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.model import Model, ModelOutput, get_model
from inspect_ai.scorer import Scorer, includes, model_graded_qa
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver

from bench.harnesses.job import EXPECTED, RUBRIC, Job, main, question
from bench.harnesses.openai_client import KEY


@solver  # type: ignore[untyped-decorator] # inspect_ai is not in agentv's own environment
def echo() -> Solver:
    """Return a solver that answers with the input."""

    async def solve(state: TaskState, _: Generate) -> TaskState:
        state.output = ModelOutput.from_content("echo", state.input_text)
        return state

    return solve


def prepare(job: Job) -> Callable[[], int]:
    """Return the evaluation of a task; its samples are made here, unmeasured."""
    samples = [Sample(id=number + 1, input=question(number), target=_target(job)) for number in range(job.cases)]
    model = get_model("mockllm/model") if job.kind == "echo" else _model(job)
    task = Task(
        name="bench",
        dataset=samples,
        solver=echo() if job.kind == "echo" else generate(),
        scorer=_scorer(job, model),
    )

    def run() -> int:
        (log,) = evaluate(
            task, model=model, max_samples=job.at_once, max_connections=job.at_once, display="none", log_dir="logs"
        )
        scores = [score for sample in log.samples or () for score in (sample.scores or {}).values()]
        return sum(score.value == "C" for score in scores)

    return run


def _target(job: Job) -> str:
    return RUBRIC if job.kind == "judge" else EXPECTED


def _model(job: Job) -> Model:
    return get_model("openai-api/bench/fake", base_url=job.url, api_key=KEY)


def _scorer(job: Job, model: Model) -> Scorer:
    return model_graded_qa(model=model) if job.kind == "judge" else includes()


if __name__ == "__main__":
    main(prepare)

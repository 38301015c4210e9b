"""Plug-ins of one's own: the decorators that mark them, and what callers may give instead."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from agentv.evaluators.criteria_evaluator import adapted
from agentv.pipeline.plugin_loading import MARK
from agentv.pipeline.plugin_specs import FunctionEvaluator, evaluator_spec, provider_spec, report_spec, store_spec
from agentv.registry import Registry, Spec
from agentv.types.cases import EvaluatorConfig

Marked = TypeVar("Marked", bound=Callable[..., Any])


def evaluator(name: str, *, aliases: tuple[str, ...] = (), cost: str = "free") -> Callable[[Marked], Marked]:
    """Make a function or class an evaluator type of that name.

    A function gets the EvaluationContext and returns a score 0..1, a bool, an EvaluationScore, or one or several
    EvaluationResults; its keyword-only parameters become settings. A class has `evaluate(context)`; a dataclass'
    fields become settings. List the file under `plugins:` in `.agentv.yaml`, or bring it in a package as an entry
    point `agentv.evaluators`. Raises PluginError when the signature does not fit.

        @evaluator("no_apology")
        def no_apology(context):
            return "sorry" not in context.candidate.lower()
    """
    return _marker("evaluator", partial(evaluator_spec, name, aliases=aliases, cost=cost))


def provider(name: str, *, aliases: tuple[str, ...] = ()) -> Callable[[Marked], Marked]:
    """Make a function or class a provider of that name, for `provider:` in a targets file.

    A function gets a ProviderRequest (and its settings as keyword-only parameters) and returns a string, a
    ProviderResponse or a dict of its keys. A class has `kind` and `async invoke(request)`; a dataclass' fields become
    settings. Entry points: `agentv.providers`. Raises PluginError when the signature does not fit.
    """
    return _marker("provider", partial(provider_spec, name, aliases=aliases))


def report(name: str, *, aliases: tuple[str, ...] = ()) -> Callable[[Marked], Marked]:
    """Make a function the format of files whose names end in `.NAME`: `agentv run -o week.NAME`.

    The function gets the RunReport and the run's rows (CaseResults, read while it goes through them, once), and
    returns the text. Entry points: `agentv.reports`. Raises PluginError when the signature does not fit.

        @report("ids.txt")
        def ids(report, rows):
            return " ".join(row.eval_id for row in rows)
    """
    return _marker("report", partial(report_spec, name, aliases=aliases))


def store(name: str, *, aliases: tuple[str, ...] = ()) -> Callable[[Marked], Marked]:
    """Make a function or class a store of that name, for results of the criteria door.

    A class has `save_result(result)`, sync or async; a dataclass' fields become settings. A function returns an object
    that has it, and its keyword-only parameters become settings. Entry points: `agentv.stores`. Raises PluginError
    when the signature does not fit.
    """
    return _marker("store", partial(store_spec, name, aliases=aliases))


def _marker(sort: str, spec_of: Callable[[Callable[..., Any]], Spec]) -> Callable[[Marked], Marked]:
    def mark(plugin: Marked) -> Marked:
        setattr(plugin, MARK, (sort, spec_of(plugin)))
        return plugin

    return mark


def as_evaluator(given: object, evaluators: Registry) -> object:
    """Return what stands in a list of evaluators for what a caller put there.

    A function or class that `@evaluator` marked becomes a config of its type, which `evaluators` then knows; when that
    type is somebody else's already (a plug-in package at work on itself, found by its file and installed), it judges
    by itself. Any other function is called with the context and named as it is. An evaluator of the criteria door's
    own shape is adapted; configs and objects are returned as they are.
    """
    mark = getattr(given, MARK, None)
    if isinstance(mark, tuple) and mark[0] == "evaluator":
        spec: Spec = mark[1]
        if evaluators.specs.get(spec.name, spec) is not spec:
            return given() if isinstance(given, type) else FunctionEvaluator(spec.name, cast(Any, given), {})
        evaluators.add(spec)
        return EvaluatorConfig(name=spec.name, type=spec.name)
    if inspect.isfunction(given):
        spec = evaluator_spec(given.__name__, given)
        return FunctionEvaluator(spec.name, given, {})
    return adapted(given)

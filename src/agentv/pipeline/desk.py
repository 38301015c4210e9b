"""Where one target answers one suite: what is the same for all of these rows, looked up once."""

from functools import cached_property

from agentv.pipeline.capture import Cleaner
from agentv.pipeline.fingerprints import Fingerprints
from agentv.pipeline.plan import CaseTask
from agentv.pipeline.resilience import ResilientProvider
from agentv.pipeline.score import DEFAULT_EVALUATOR_TIMEOUT_S, SuiteTools
from agentv.pipeline.toolbox import Toolbox


class Desk:
    """Who answers, who judges, and what is struck from both. `target_key` is the key of who answers.

    Live objects are made when they are first needed: a row that fails before has its own error, not theirs.
    """

    def __init__(self, task: CaseTask, toolbox: Toolbox, fingerprints: Fingerprints) -> None:
        spec = toolbox.specs.providers.get(task.target.provider)
        self._suite, self._target = task.suite, task.target  # held: their ids say which desk this is
        self._known = task.known
        self._toolbox = toolbox
        self._cleaner: Cleaner | None = None
        self._secrets_of = 0
        self.is_model = spec.is_model_api
        self.names_files = spec.has_files
        self.target_key = fingerprints.target_key(task.target)
        timeout_s = task.suite.evaluator_timeout_s or DEFAULT_EVALUATOR_TIMEOUT_S
        self.tools = SuiteTools(toolbox, task.known, timeout_s, task.only_free)

    @cached_property
    def provider(self) -> ResilientProvider:
        """Who answers."""
        return self._toolbox.provider(self._target)

    @cached_property
    def judge(self) -> ResilientProvider | None:
        """Who judges the target's answers where an evaluator names nobody; None when nobody can."""
        return self._toolbox.own_judge(self._target, self._known)

    def cleaner(self) -> Cleaner:
        """Return what makes answers fit to be kept. Targets that a late line names bring secrets of their own."""
        known = len(self._known.resolved)
        if self._cleaner is None or self._secrets_of != known:
            self._secrets_of = known
            self._cleaner = Cleaner(self._toolbox.redactor(self._known, self._suite.redact))
        return self._cleaner

"""Names of targets and prompts in the columns of a list, cut where that leaves no two of them alike."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from agentv.reports.run.row_text import cell_text
from agentv.reports.text.printable import one_line
from agentv.reports.text.width import clip_names, display_width

_DOT_WIDTH = 3
_MIN_NAME_WIDTH = 8


class CellLabels(Struct, frozen=True):
    """The labels of a run's targets and prompts."""

    targets: Mapping[str, str]
    prompts: Mapping[str, str]
    width: int
    """The cells of the longest label."""

    @classmethod
    def of(cls, targets: Sequence[str], prompts: Sequence[str], width: int | None, *, mark: str = "…") -> "CellLabels":
        """Return labels of at most `width` cells, if the cut names still differ; None does not cut.

        The target is left out if the run has only one.
        """
        named = [
            list(map(one_line, targets)) if len(targets) > 1 else [""] * len(targets),
            list(map(one_line, prompts)),
        ]
        longest = [max(map(display_width, names), default=0) for names in named]
        if width is not None and sum(longest) + (_DOT_WIDTH if all(longest) else 0) > width:
            room = max(width - (_DOT_WIDTH if all(longest) else 0), _MIN_NAME_WIDTH)
            rooms = [max(room // 2, room - other, _MIN_NAME_WIDTH) for other in reversed(longest)]
            named = [clip_names(names, each, mark=mark) for names, each in zip(named, rooms, strict=True)]
        shown_targets = dict(zip(targets, named[0], strict=True))
        shown_prompts = dict(zip(prompts, named[1], strict=True))
        widths = [max(map(display_width, names), default=0) for names in named]
        return cls(shown_targets, shown_prompts, sum(widths) + (_DOT_WIDTH if all(widths) else 0))

    @property
    def is_single(self) -> bool:
        """True if no label is needed, because the run has one target and at most one prompt."""
        return len(self.targets) <= 1 and len(self.prompts) <= 1

    def text(self, target: str, prompt: str | None) -> str:
        """Return `small · short`."""
        shown = self.targets.get(target, one_line(target))
        return cell_text(shown, None if prompt is None else self.prompts.get(prompt, one_line(prompt)))

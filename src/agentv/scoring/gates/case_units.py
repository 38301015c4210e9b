"""The unit of a number of cases: a case counts once, or once for each of its prompts and targets."""


def counted_by(*, has_prompts: bool) -> str:
    """Return the unit of a number that counts a case once for each of its prompts and targets."""
    return "counted by prompt and target" if has_prompts else "counted by target"


def cases_text(total: int, cases: int, *, has_prompts: bool) -> str:
    """Return `3 cases`, or for cases with several prompts or targets `3 cases (12 counted by prompt and target)`.

    `total` counts a case once for each of its prompts and targets, `cases` once; 0 if that number is not known.
    """
    cases = cases or total
    text = "1 case" if cases == 1 else f"{cases:,} cases"
    return text if cases == total else f"{text} ({total:,} {counted_by(has_prompts=has_prompts)})"

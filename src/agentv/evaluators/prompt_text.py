"""A prompt in a setting: written there, or the path of the file that holds it."""

from pathlib import Path

from agentv.types.errors import ConfigError

_SUFFIXES = frozenset({".md", ".txt", ".prompt", ".j2", ".jinja", ".tmpl"})


def load_prompt(prompt: str, base_dir: str = ".") -> str:
    """Return the prompt's text: that of the file it names, relative to `base_dir`, else the text itself.

    A line that looks like a file's name but leads to none is a ConfigError, so that a judge is never asked "judge.md".
    """
    if not _looks_like_path(prompt):
        return prompt
    path = Path(base_dir, prompt)
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
        raise ConfigError(
            f"cannot read the prompt {str(path)!r}: {reason}; give a file, or the prompt itself"
        ) from error


def _looks_like_path(prompt: str) -> bool:
    return "\n" not in prompt and "{{" not in prompt and Path(prompt.strip()).suffix.lower() in _SUFFIXES

"""A prompt in a setting: written there, or the path of the file that holds it."""

from pathlib import Path

from agentv.evaluators.named_files import is_file
from agentv.types.errors import ConfigError

_SUFFIXES = frozenset({".md", ".txt", ".prompt", ".j2", ".jinja", ".tmpl"})


def load_prompt(prompt: str, base_dir: str = ".") -> str:
    """Return the prompt's text: that of the file it names, relative to `base_dir`, else the text itself.

    A line that looks like a file's name but leads to none is a ConfigError, so that a judge is never asked "judge.md".
    """
    path = prompt_path(prompt, base_dir)
    if path is None:
        return prompt
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
        raise ConfigError(
            f"cannot read the prompt {str(path)!r}: {reason}; give a file, or the prompt itself"
        ) from error


def prompt_path(prompt: str, base_dir: str = ".") -> Path | None:
    """Return the file that a prompt names: one line that ends like a file's name, or is one; else None."""
    if "\n" in prompt or "{{" in prompt or not prompt.strip():
        return None
    path = Path(base_dir, prompt.strip())
    return path if path.suffix.lower() in _SUFFIXES or is_file(path) else None


def prompt_files(prompt: str | None, base_dir: str) -> tuple[str, ...]:
    """Return the file that a prompt names, if it does."""
    path = None if prompt is None else prompt_path(prompt, base_dir)
    return () if path is None else (str(path.resolve()),)

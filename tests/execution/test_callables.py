import sys
from pathlib import Path

import pytest

from agentv.execution.user_code import load_callable
from agentv.types.errors import PluginError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(
        "import neighbour\n"
        "class TargetSession:\n"
        "    @staticmethod\n"
        "    def answer(question): return question + neighbour.SUFFIX\n"
        "def answer(question): return TargetSession.answer(question)\n"
        "NUMBER = 4\n"
    )
    (tmp_path / "neighbour.py").write_text("SUFFIX = '!'\n")
    (tmp_path / "broken.py").write_text("raise RuntimeError('no database')\n")
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(3)\n")
    return tmp_path


def test_a_function_of_a_file_is_found_beside_the_file_that_names_it(folder: Path) -> None:
    assert load_callable("agent.py:answer", folder)("hi") == "hi!"
    assert load_callable("agent.py:TargetSession.answer", folder)("hi") == "hi!"


def test_a_function_of_a_package_is_found(tmp_path: Path) -> None:
    package = tmp_path / "shop_of_this_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "clerk.py").write_text("def answer(question): return 'shop'\n")

    assert load_callable("shop_of_this_test.clerk:answer", tmp_path)("hi") == "shop"
    assert load_callable("os.path:basename", tmp_path)("a/b") == "b"


def test_a_file_is_executed_once(folder: Path) -> None:
    assert load_callable("agent.py:answer", folder) is load_callable(str(folder / "agent.py") + ":answer", "/")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("agent.py", "does not name a function; write package.module:function or path/to/file.py:function"),
        ("agent.py:", "does not name a function"),
        ("missing.py:answer", "there is no file .*missing.py"),
        ("no_such_package_here:answer", "ModuleNotFoundError: No module named 'no_such_package_here'"),
        ("agent.py:anser", "agent.py has no 'anser'. Did you mean 'answer'?"),
        ("agent.py:NUMBER", "it is a int, not a function"),
        ("broken.py:answer", "RuntimeError: no database"),
        ("leaving.py:answer", "SystemExit: 3"),
    ],
)
def test_what_cannot_be_loaded_says_why(folder: Path, reference: str, message: str) -> None:
    with pytest.raises(PluginError, match=message):
        load_callable(reference, folder)


def test_a_file_that_failed_is_not_half_loaded(folder: Path) -> None:
    with pytest.raises(PluginError):
        load_callable("broken.py:answer", folder)

    assert not [name for name in sys.modules if name.endswith("_broken")]

"""The importers as loading finds them through the plug-ins, and what they import."""

import subprocess
import sys
from pathlib import Path

from agentv.engine.plugins.loading import load_specs
from agentv.importers.file_importers import FileImporters
from agentv.loading.translation.importers import Importers, importers_of

SUITE = "evalcases: [{id: a, input_messages: [{role: user, content: hi}], expected_outcome: a greeting}]"
READ = """
import sys
from pathlib import Path
from agentv.engine.plugins.loading import load_specs
from agentv.loading.suites.suites import read_suite
from agentv.loading.targets.targets import read_targets

assert not [name for name in sys.modules if name.startswith("agentv.importers")]
specs = load_specs()
assert read_suite(Path("a.eval.yaml"), specs).problems == ()
assert read_targets(Path("targets.yaml"), specs).problems == ()
print(*sorted(name for name in sys.modules if name.startswith("agentv.importers.")))
"""


def test_loading_finds_the_importers_through_the_plugins() -> None:
    specs = load_specs()
    expected: Importers = FileImporters(specs)
    assert importers_of(specs) == expected


def test_files_in_our_keys_import_no_translator(tmp_path: Path) -> None:
    (tmp_path / "a.eval.yaml").write_text(SUITE)
    (tmp_path / "targets.yaml").write_text("targets: [{name: m, provider: mock, response: ok}]")
    read = subprocess.run([sys.executable, "-c", READ], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert read.stdout.split() == [
        "agentv.importers.agentv",
        "agentv.importers.agentv.ambiguity",
        "agentv.importers.agentv.files",
        "agentv.importers.agentv.generations",
        "agentv.importers.file_importers",
    ]

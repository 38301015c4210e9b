"""A notebook run by nbconvert: results, reports and data frames are tables in its HTML.

Needs the dependency group `notebook`: ./run --group=notebook pytest tests/api/test_notebook.py
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorials" / "first-notebook.ipynb"

missing = [name for name in ("nbconvert", "ipykernel") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"needs the dependency group `notebook`: {', '.join(missing)}")


def test_the_notebooks_html_shows_verdict_reasons_and_tables(tmp_path: Path) -> None:
    shutil.copy(NOTEBOOK, tmp_path)
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", NOTEBOOK.name]
    env = {**os.environ, "IPYTHONDIR": str(tmp_path), "JUPYTER_PLATFORM_DIRS": "1", "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "first-notebook.html").read_text()
    shown = r'<div class="jp-RenderedHTMLCommon[^>]*data-mime-type="text/html"[^>]*>(.*?)</table>'
    outputs = re.findall(shown, html, re.DOTALL)
    judged, report, row, frame, compared = outputs
    assert "FAIL 0.50 (2 of 2 scored)" in judged
    assert 'contains "30 days"' in judged
    assert "expected at most 4 words, got 9" in judged
    assert "FAIL: 0 of 2 judged results passed" in report
    assert 'expected "Madrid", got "It is Paris."' in report
    assert "FAIL 0.50 france" in row
    assert "verdict" in frame
    assert "1 case fell, 1 rose" in compared
    assert not any("<script" in output for output in outputs)

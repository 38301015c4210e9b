"""The password of a URL that is given in a wrong place is not in the error, which CI logs keep."""

from pathlib import Path

import pytest

from agentv.cli.main import main

URL = "postgresql://ann:s3cret-pw@127.0.0.1:1/evals"
SHOWN = "postgresql://ann***127.0.0.1:1/evals"


@pytest.mark.parametrize(
    "words",
    [
        (URL,),
        ("store", URL),
        ("store", "list", URL),
        ("store", "push", URL),
        ("run", URL),
        ("run", "--case", URL),
        ("run", "--target", URL),
        ("run", "--baseline", URL),
        ("show", URL),
        ("compare", URL, "latest"),
        ("trend", URL),
        ("resume", URL),
        ("check", URL),
        ("convert", URL, "-o", "suite.yaml"),
        ("doctor", URL),
        ("judge", "check", URL),
        ("show", f"--stor={URL}"),
        ("show", "https://ann:s3cret-pw@host/run"),
    ],
)
def test_no_error_has_the_password(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(words)
    said = "".join(capsys.readouterr())
    assert "s3cret" not in said
    assert said


def test_the_rest_of_the_url_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(("run", URL))
    assert f"{SHOWN}: there is no such file or folder" in capsys.readouterr().err

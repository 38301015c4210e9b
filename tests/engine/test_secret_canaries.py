"""Thirteen secrets that a target prints: none may stand on disk or on the screen after a run."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest

from agentv.cli.main import agentv
from agentv.templating.secrets import SecretRedactor

CASE = """\
evalcases:
  - id: a
    expected_outcome: ok
    input_messages: [{role: user, content: hi}]
    evaluators:
      - {name: c, type: contains, value: hello}
      - {name: judge, type: code_judge, script: "python judge.py"}
"""

JUDGE = "import json, sys\nprint(json.dumps({'score': 1, 'reasoning': json.load(sys.stdin)['candidate_answer']}))\n"

SECRET = "canary+{}/Zx9?Qw4"


class _Echo(BaseHTTPRequestHandler):
    """Answers with the request line and all headers, as a debugging endpoint does."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        said = f"hello {self.path} {json.dumps(dict(self.headers.items()))}"
        body = json.dumps({"text": said}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def echo() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def _in_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "a.yaml").write_text(CASE)
    (tmp_path / "evals" / "judge.py").write_text(JUDGE)
    monkeypatch.chdir(tmp_path)


def run(targets: str, capfd: pytest.CaptureFixture[str], *options: str) -> str:
    """Run the suite against the targets; return everything that was stored or shown."""
    Path("targets.yaml").write_text(f"targets:\n{targets}")
    arguments = ["run", "--display", "plain", "-o", "out.jsonl", "-o", "out.html", *options]
    code = agentv.main(arguments, standalone_mode=False)
    shown = capfd.readouterr()
    stored = [path.read_text("utf-8", "replace") for path in Path(".agentv").rglob("*") if path.is_file()]
    exported = [Path(name).read_text() for name in ("out.jsonl", "out.html")]
    said = "\n".join([shown.out, shown.err, *stored, *exported])
    assert code == 0, said
    assert "hello" in said
    return said


def printing(code: str) -> str:
    secret = "s = os.environb.get(b'SOME_TOKEN', b'')"
    Path("evals/agent.py").write_text(f"import base64, os, urllib.parse\n{secret}\nprint('hello', {code})\n")
    return "  - {name: t, provider: cli, command_template: python agent.py}\n"


@pytest.mark.parametrize("header", ["Cookie", "X-Auth", "Authorization"])
def test_header_of_an_http_target(
    header: str, echo: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = SECRET.format(1)
    monkeypatch.setenv("PLAIN_NAME", secret)
    value = {"Cookie": "theme=dark; id=${{ PLAIN_NAME }}", "X-Auth": "${{ PLAIN_NAME }}"}.get(
        header, "Bearer ${{ PLAIN_NAME }}"
    )
    said = run(
        f"  - {{name: t, provider: http, url: 'http://127.0.0.1:{echo}/', response: $.text, "
        f"body: {{q: '{{{{ question }}}}'}}, headers: {{{header}: '{value}'}}}}\n",
        capfd,
    )
    assert secret not in said


@pytest.mark.parametrize("name", ["OPENAI_API_KEY_2", "GH_PAT", "AWS_CREDENTIALS", "SENTRY_DSN", "dbPasswd"])
def test_foreign_variable_printed_by_a_command(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, SECRET.format(2))
    assert SECRET.format(2) not in run(printing(f"os.environ[{name!r}]"), capfd)


def test_value_with_a_known_prefix(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PLAIN_NAME", "ghp_0123456789abcdef")
    assert "ghp_0123456789" not in run(printing("os.environ['PLAIN_NAME']"), capfd)


def test_password_in_a_database_url(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://app:canary-pass-77@db.example/shop")
    said = run(printing("os.environ['DATABASE_URL']"), capfd)
    assert "canary-pass-77" not in said
    assert "db.example/shop" in said


def test_user_info_and_query_of_a_url(
    echo: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLAIN_NAME", "canary-query-88")
    url = f"http://user:canary-user-99@127.0.0.1:{echo}/x?api_key=${{{{ PLAIN_NAME }}}}&lang=en"
    said = run(
        f"  - {{name: t, provider: http, url: '{url}', response: $.text, body: {{q: '{{{{ question }}}}'}}}}\n", capfd
    )
    assert "canary-query-88" not in said
    assert "canary-user-99" not in said
    assert base64.b64encode(b"user:canary-user-99").decode() not in said
    assert "lang=en" in said


@pytest.mark.parametrize(
    "encoded",
    [
        "base64.b64encode(s).decode()",
        "base64.b64encode(b'x' + s).decode()",
        "base64.b64encode(b'xy' + s + b'tail').decode()",
        "base64.urlsafe_b64encode(s).decode()",
        "s.hex()",
        "s.hex().upper()",
        "urllib.parse.quote(s, safe='')",
        "urllib.parse.quote_plus(s)",
    ],
)
def test_encoded_secret(encoded: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    secret = SECRET.format(3)
    monkeypatch.setenv("SOME_TOKEN", secret)
    said = run(printing(encoded), capfd)
    data = secret.encode()
    forms = [secret, quote(data, safe=""), data.hex(), data.hex().upper()]
    forms += [base64.b64encode(bytes(offset) + data).decode()[4:-4] for offset in range(3)]
    forms += [base64.urlsafe_b64encode(bytes(offset) + data).decode()[4:-4] for offset in range(3)]
    assert not [form for form in forms if form in said]


def test_error_of_a_setting_does_not_print_the_filled_template(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLAIN_NAME", "canary-template-55")
    Path("targets.yaml").write_text(
        "targets: [{name: t, provider: cli, command_template: 'agent ${{ PLAIN_NAME }} {UNKNOWN}'}]\n"
    )
    said = ""
    for arguments in (["run"], ["check"]):
        try:
            agentv.main(arguments, standalone_mode=False)
        except Exception as error:  # noqa: BLE001 - the message is what counts
            said += str(error)
        said += "".join(capfd.readouterr())
    assert "UNKNOWN" in said
    assert "canary-template-55" not in said


def test_public_variable_is_exempt_everywhere(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PUBLIC_KEY", SECRET.format(4))
    Path(".agentv.yaml").write_text("public_env: [PUBLIC_KEY]\n")
    assert f"hello {SECRET.format(4)}" in run(printing("os.environ['PUBLIC_KEY']"), capfd)


def test_values_that_are_no_secrets_stay(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    shown = {
        "KEY_COUNT": "123456789",
        "AUTH_ENABLED": "true",
        "SSH_KEY": str(Path.cwd()),
        "JUDGE_KEY_MODEL": "gpt-4o-mini",
    }
    for name, value in shown.items():
        monkeypatch.setenv(name, value)
    said = run(printing("*map(os.environ.get, ('KEY_COUNT', 'SSH_KEY', 'JUDGE_KEY_MODEL'))"), capfd)
    assert f"hello 123456789 {Path.cwd()} gpt-4o-mini" in said


def test_what_was_judged_is_what_is_stored(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SOME_TOKEN", SECRET.format(5))
    run(printing("os.environ['SOME_TOKEN']"), capfd)
    row = json.loads(Path("out.jsonl").read_text().splitlines()[0])
    assert row["candidate_answer"] == "hello ***"
    assert row["evaluator_results"][1]["reasoning"] == "hello ***"


def test_env_allow_passes_only_its_variables(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANTED", "wanted-value")
    monkeypatch.setenv("UNWANTED", "unwanted-value")
    target = printing("os.environ.get('WANTED'), os.environ.get('UNWANTED')").replace("}", ", env_allow: [WANTED]}")
    assert "hello wanted-value None" in run(target, capfd)


@pytest.mark.parametrize("length", range(16, 40))
def test_base64_of_any_length_and_neighbours_holds_no_part_of_a_secret(length: int) -> None:
    secret = ("s3cr3t-" * 6)[:length]
    for before in (b"", b"a", b"ab"):
        for after in (b"", b"y", b"yz"):
            text = base64.b64encode(before + secret.encode() + after).decode()
            assert len(SecretRedactor([secret]).redact(text)) <= 3 + 4 + 6


def test_canned_answer_is_no_secret_whatever_its_case_is_called(capfd: pytest.CaptureFixture[str]) -> None:
    Path("evals/a.yaml").write_text(CASE.replace("id: a", "id: reset-password"))
    assert "hello from us" in run("  - {name: t, provider: mock, response: {reset-password: hello from us}}\n", capfd)


@pytest.mark.parametrize(
    "other",
    [
        "{name: o, provider: mcp, tool: x, url: 'http://127.0.0.1:9/', headers: {X-Auth: '${{ PLAIN_NAME }}'}}",
        "{name: o, provider: openai, model: m, api_key: '${{ PLAIN_NAME }}'}",
        "{name: o, provider: openai, model: m, api_key: canary-other-66, base_url: '${{ NOT_SET }}'}",
    ],
)
@pytest.mark.parametrize("place", ["targets file", "eval file"])
def test_the_secret_of_an_unused_target_is_redacted(
    other: str, place: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLAIN_NAME", "canary-other-66")
    if place == "eval file":
        Path("evals/a.yaml").write_text(f"targets: [{other}]\n{CASE}")
    targets = printing("'canary-' + 'other-66'")
    said = run(targets if place == "eval file" else f"{targets}  - {other}\n", capfd, "--target", "t")
    assert "canary-other-66" not in said
    assert "hello ***" in said

"""Record what real instrumentations send: `./run python -m tests.telemetry.record [NAME …]`.

Each agent of tests/telemetry/agents runs in an environment of its own, in AGENTV_TRACE_ENVIRONMENTS (a folder, by
default in the user's cache), against the fake model server. What it sends is written to tests/fixtures/traces/NAME.pb
and NAME.logs.pb, without the attributes of this machine, and its versions and the tokens that the server counted to
tests/fixtures/traces/recorded.json.
"""

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import NamedTuple

from google.protobuf.json_format import MessageToJson, Parse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.support.fake_server import serving_fake
from tests.telemetry.agents import shop

AGENTS = Path(__file__).parent / "agents"
RECORDED = Path(__file__).parents[1] / "fixtures" / "traces"
_EXPORTER = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
_EXPORTER_JS = ("@opentelemetry/sdk-node", "@opentelemetry/exporter-trace-otlp-proto")
_LANGCHAIN_JS = (
    *("langchain", "@langchain/core", "@langchain/openai", "zod"),
    "@arizeai/openinference-instrumentation-langchain",
)
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_EXPERIMENTAL = "gen_ai_latest_experimental"
_LATEST = {"OTEL_SEMCONV_STABILITY_OPT_IN": _EXPERIMENTAL, _CAPTURE: "span_only"}
_GENAI = "opentelemetry.instrumentation.genai"


class Recording(NamedTuple):
    """One instrumentation: its environment, its agent with arguments, and the variables that it needs."""

    environment: str
    packages: tuple[str, ...]
    agent: tuple[str, ...]
    variables: Mapping[str, str] = {}


def _raw(environment: str, package: str, instrumentor: str, *more: str, **variables: str) -> Recording:
    return Recording(environment, ("openai", package, *more, *_EXPORTER), ("raw_openai.py", instrumentor), variables)


def _own(environment: str, agent: str, *packages: str, **variables: str) -> Recording:
    """Return a framework that instruments itself."""
    return Recording(environment, (*packages, *_EXPORTER), (agent,), variables)


def _by(
    name: str, agent: str, instrumentors: str, *packages: str, variables: Mapping[str, str] | None = None
) -> Recording:
    """Return a framework with the instrumentations that are named as MODULE:CLASS, by commas."""
    return Recording(name, (*packages, *_EXPORTER), (agent, instrumentors), variables or {})


def _openinference(name: str, agent: str, kind: str, *packages: str) -> Recording:
    package = f"openinference-instrumentation-{name}"
    module = f"openinference.instrumentation.{name.replace('-', '_')}:{kind}"
    return _by(f"openinference-{name}", agent, module, package, *packages)


def _agents(
    made: tuple[str, tuple[str, ...]], instrumentors: str, api: str, variables: Mapping[str, str] | None = None
) -> Recording:
    environment, packages = made
    agent = ("with_openai_agents.py", instrumentors, api)
    return Recording(environment, ("openai-agents", *packages, *_EXPORTER), agent, variables or {})


def _langchain(environment: str, package: str, instrumentor: str, **variables: str) -> Recording:
    packages = ("langchain", "langchain-openai", package, *_EXPORTER)
    return Recording(environment, packages, ("with_langchain.py", instrumentor), variables)


_OI_AGENTS = ("openinference-agents", ("openinference-instrumentation-openai-agents",))
_OI = "openinference.instrumentation.openai_agents:OpenAIAgentsInstrumentor"
_OFFICIAL = f"{_GENAI}.openai_agents:OpenAIAgentsInstrumentor"
_OFFICIAL_AGENTS = (
    "official-agents",
    ("opentelemetry-instrumentation-genai-openai-agents", "opentelemetry-instrumentation-genai-openai"),
)
_BOTH = f"{_OFFICIAL},{_GENAI}.openai:OpenAIInstrumentor"
_OLLM_AGENTS = ("openllmetry-agents", ("opentelemetry-instrumentation-openai-agents",))
_OLLM = "opentelemetry.instrumentation.openai_agents:OpenAIAgentsInstrumentor"
_LLAMA_INDEX = ("llama-index-core", "llama-index-llms-openai")
_V2 = (
    "openai-v2",
    "opentelemetry-instrumentation-openai-v2",
    "opentelemetry.instrumentation.openai_v2:OpenAIInstrumentor",
    *("openai<3", "httpx", "opentelemetry-util-genai<1"),
)
_GENAI_OPENAI = ("genai-openai", "opentelemetry-instrumentation-genai-openai", f"{_GENAI}.openai:OpenAIInstrumentor")
RECORDINGS: Mapping[str, Recording] = {
    "pydantic-ai": Recording("pydantic-ai", ("pydantic-ai-slim[openai]", *_EXPORTER), ("with_pydantic_ai.py",)),
    "openinference-openai-agents-chat": _agents(_OI_AGENTS, _OI, "chat"),
    "openinference-openai-agents-responses": _agents(_OI_AGENTS, _OI, "responses"),
    "official-openai-agents-chat": _agents(_OFFICIAL_AGENTS, _BOTH, "chat", _LATEST),
    "official-openai-agents-responses": _agents(_OFFICIAL_AGENTS, _BOTH, "responses", _LATEST),
    "openinference-langchain": _langchain(
        "openinference-langchain",
        "openinference-instrumentation-langchain",
        "openinference.instrumentation.langchain:LangChainInstrumentor",
    ),
    "official-langchain": _langchain(
        "official-langchain",
        "opentelemetry-instrumentation-genai-langchain",
        f"{_GENAI}.langchain:LangChainInstrumentor",
        **_LATEST,
    ),
    "openllmetry-langchain": _langchain(
        "openllmetry-langchain",
        "opentelemetry-instrumentation-langchain",
        "opentelemetry.instrumentation.langchain:LangchainInstrumentor",
    ),
    "openllmetry-openai": _raw(
        "openllmetry-openai",
        "opentelemetry-instrumentation-openai",
        "opentelemetry.instrumentation.openai:OpenAIInstrumentor",
    ),
    "openinference-openai": _raw(
        "openinference-openai",
        "openinference-instrumentation-openai",
        "openinference.instrumentation.openai:OpenAIInstrumentor",
    ),
    "openai-v2": _raw(*_V2, **{_CAPTURE: "true"}),
    "traceai-openai": _raw("traceai", "traceai-openai", "traceai_openai:OpenAIInstrumentor"),
    "laminar": _own("laminar", "with_laminar.py", "openai", "lmnr[all]"),
    "langtrace": _own(
        "langtrace", "with_langtrace.py", "openai", "langtrace-python-sdk", "importlib_metadata", "setuptools<80"
    ),
    "langwatch": _own("langwatch", "with_langwatch.py", "openai", "langwatch"),
    "monocle": _own("monocle", "with_monocle.py", "langchain", "langchain-openai", "monocle_apptrace"),
    "ag2": _own("ag2", "with_ag2.py", "ag2[openai,tracing]<1"),
    "genai-openai": _raw(*_GENAI_OPENAI, **_LATEST),
    "genai-openai-events": _raw(
        *_GENAI_OPENAI, **{**_LATEST, _CAPTURE: "event_only", "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT": "true"}
    ),
    "logfire": Recording("logfire", ("openai", "logfire", "opentelemetry-instrumentation-httpx"), ("with_logfire.py",)),
    "langfuse": Recording("langfuse", ("openai", "langfuse"), ("with_langfuse.py", "client")),
    "langfuse-langchain": Recording(
        "langfuse-langchain", ("langchain", "langchain-openai", "langfuse"), ("with_langfuse.py", "langchain")
    ),
    "logfire-openai-agents": Recording(
        "logfire-openai-agents",
        ("openai-agents", "logfire", *_EXPORTER),
        ("with_openai_agents.py", "logfire:configure,logfire:instrument_openai_agents", "chat"),
        {"LOGFIRE_SEND_TO_LOGFIRE": "false", "LOGFIRE_CONSOLE": "false"},
    ),
    "mlflow": Recording("mlflow-full", ("openai", "mlflow", *_EXPORTER), ("with_mlflow.py", "openai")),
    "mlflow-anthropic": Recording(
        "mlflow-anthropic", ("anthropic", "mlflow", *_EXPORTER), ("with_mlflow.py", "anthropic")
    ),
    "ai-sdk": Recording(
        "ai-sdk",
        ("ai@6", "@ai-sdk/openai@3", "zod", *_EXPORTER_JS),
        ("with_ai_sdk.mjs",),
    ),
    "openinference-anthropic": _openinference("anthropic", "raw_anthropic.py", "AnthropicInstrumentor", "anthropic"),
    "anthropic": _by(
        "anthropic",
        "raw_anthropic.py",
        "",
        "anthropic",
        variables={"ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE": "content"},
    ),
    "openllmetry-anthropic": _by(
        "openllmetry-anthropic",
        "raw_anthropic.py",
        "opentelemetry.instrumentation.anthropic:AnthropicInstrumentor",
        *("anthropic", "opentelemetry-instrumentation-anthropic"),
    ),
    "genai-anthropic": _by(
        "genai-anthropic",
        "raw_anthropic.py",
        f"{_GENAI}.anthropic:AnthropicInstrumentor",
        *("anthropic", "opentelemetry-instrumentation-genai-anthropic"),
        variables=_LATEST,
    ),
    "openinference-google-genai": _openinference(
        "google-genai", "raw_gemini.py", "GoogleGenAIInstrumentor", "google-genai"
    ),
    "google-genai": _by(
        "google-genai",
        "raw_gemini.py",
        "opentelemetry.instrumentation.google_genai:GoogleGenAiSdkInstrumentor",
        *("google-genai<3", "opentelemetry-instrumentation-google-genai"),
        variables=_LATEST,
    ),
    "openlit": _own("openlit", "with_openlit.py", "openai", "openlit"),
    "strands": _own("strands", "with_strands.py", "strands-agents[openai]"),
    "agent-framework": _own(
        "agent-framework", "with_agent_framework.py", "agent-framework-core", "agent-framework-openai"
    ),
    "semantic-kernel": _own(
        "semantic-kernel",
        "with_semantic_kernel.py",
        "semantic-kernel",
        SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE="true",
    ),
    "adk": _own("adk", "with_adk.py", "google-adk", **{_CAPTURE: "true"}),
    "azure-ai-inference": _own(
        "azure-ai-inference",
        "with_azure_inference.py",
        *("azure-ai-inference", "azure-core-tracing-opentelemetry"),
    ),
    "langsmith": _own(
        "langsmith",
        "with_langsmith.py",
        *("langchain", "langchain-openai", "langsmith[otel]"),
        **{f"LANGSMITH_{name}": "true" for name in ("OTEL_ENABLED", "TRACING", "OTEL_ONLY")},
    ),
    "litellm": _by("litellm", "with_litellm.py", "otel", "litellm"),
    "openinference-litellm": _openinference("litellm", "with_litellm.py", "LiteLLMInstrumentor", "litellm"),
    "openinference-agno": _openinference("agno", "with_agno.py", "AgnoInstrumentor", "agno", "openai"),
    "openinference-llama-index": _openinference(
        "llama-index", "with_llama_index.py", "LlamaIndexInstrumentor", *_LLAMA_INDEX
    ),
    "genai-llama-index": _by(
        "genai-llama-index",
        "with_llama_index.py",
        f"{_GENAI}.llama_index:LlamaIndexInstrumentor,{_GENAI}.openai:OpenAIInstrumentor",
        *(*_LLAMA_INDEX, "opentelemetry-instrumentation-genai-llama-index"),
        "opentelemetry-instrumentation-genai-openai",
        variables=_LATEST,
    ),
    "openinference-haystack": _openinference("haystack", "with_haystack.py", "HaystackInstrumentor", "haystack-ai"),
    "haystack": _by(
        "haystack",
        "with_haystack.py",
        "own",
        *("haystack-ai", "opentelemetry-haystack"),
        variables={"HAYSTACK_CONTENT_TRACING_ENABLED": "true"},
    ),
    "pipecat": _own("pipecat", "with_pipecat.py", "pipecat-ai[openai,tracing]"),
    "livekit": _own("livekit", "with_livekit.py", "livekit-agents[openai]"),
    "openinference-smolagents": _openinference(
        "smolagents", "with_smolagents.py", "SmolagentsInstrumentor", "smolagents[openai]"
    ),
    "openinference-crewai": _by(
        "openinference-crewai",
        "with_crewai.py",
        "openinference.instrumentation.crewai:CrewAIInstrumentor,"
        "openinference.instrumentation.openai:OpenAIInstrumentor",
        *("crewai", "openinference-instrumentation-crewai", "openinference-instrumentation-openai"),
    ),
    "openllmetry-crewai": _by(
        "openllmetry-crewai",
        "with_crewai.py",
        "opentelemetry.instrumentation.crewai:CrewAIInstrumentor,"
        "opentelemetry.instrumentation.openai:OpenAIInstrumentor",
        *("crewai", "opentelemetry-instrumentation-crewai", "opentelemetry-instrumentation-openai"),
    ),
    "autogen": _by(
        "autogen",
        "with_autogen.py",
        "openinference.instrumentation.openai:OpenAIInstrumentor",
        *("autogen-agentchat", "autogen-ext[openai]", "openinference-instrumentation-openai"),
    ),
    "openinference-autogen": _openinference(
        "autogen-agentchat",
        "with_autogen.py",
        "AutogenAgentChatInstrumentor",
        *("autogen-agentchat", "autogen-ext[openai]"),
    ),
    "openllmetry-llama-index": _by(
        "openllmetry-llama-index",
        "with_llama_index.py",
        "opentelemetry.instrumentation.llamaindex:LlamaIndexInstrumentor,"
        "opentelemetry.instrumentation.openai:OpenAIInstrumentor",
        *(*_LLAMA_INDEX, "opentelemetry-instrumentation-llamaindex", "opentelemetry-instrumentation-openai"),
    ),
    "strands-details": _own(
        "strands", "with_strands.py", "strands-agents[openai]", OTEL_SEMCONV_STABILITY_OPT_IN=_EXPERIMENTAL
    ),
    "traceloop": _own("traceloop", "with_traceloop.py", "openai", "traceloop-sdk", "httpx"),
    "genai-agno": _by(
        "genai-agno",
        "with_agno.py",
        f"{_GENAI}.agno:AgnoInstrumentor,{_GENAI}.openai:OpenAIInstrumentor",
        *("agno", "openai", "opentelemetry-instrumentation-genai-agno", "opentelemetry-instrumentation-genai-openai"),
        variables=_LATEST,
    ),
    "openllmetry-openai-agents-responses": _agents(_OLLM_AGENTS, _OLLM, "responses"),
    "openllmetry-openai-agents-chat": _agents(_OLLM_AGENTS, _OLLM, "chat"),
    "openinference-openai-js": Recording(
        "openinference-openai-js",
        ("openai", "@arizeai/openinference-instrumentation-openai", *_EXPORTER_JS),
        ("raw_openai.mjs",),
    ),
    "openinference-langchain-js": Recording(
        "openinference-langchain-js",
        (*_LANGCHAIN_JS, *_EXPORTER_JS),
        ("with_langchain.mjs",),
    ),
    "ai-sdk-7": Recording(
        "ai-sdk-7",
        ("ai@7", "@ai-sdk/openai@4", "@ai-sdk/otel", "zod", *_EXPORTER_JS),
        ("with_ai_sdk_7.mjs",),
    ),
    "openinference-ai-sdk": Recording(
        "openinference-ai-sdk",
        ("ai@6", "@ai-sdk/openai@3", "@arizeai/openinference-vercel", "zod", *_EXPORTER_JS),
        ("with_ai_sdk_openinference.mjs",),
    ),
    "openinference-anthropic-js": Recording(
        "openinference-anthropic-js",
        ("@anthropic-ai/sdk", "@arizeai/openinference-instrumentation-anthropic", *_EXPORTER_JS),
        ("raw_anthropic.mjs",),
        {"ANTHROPIC_OPEN_TELEMETRY": "false"},
    ),
    "genkit": Recording(
        "genkit",
        ("genkit", "@genkit-ai/compat-oai", "@opentelemetry/sdk-trace-base@1", f"{_EXPORTER_JS[1]}@0.52"),
        ("with_genkit.mjs",),
    ),
    "laminar-js": Recording("laminar-js", ("@lmnr-ai/lmnr", "openai@6"), ("with_laminar.mjs",)),
    "sentry-js": Recording(
        "sentry-js",
        ("@sentry/node@10", "openai@6", "@opentelemetry/sdk-trace-base@2.12", _EXPORTER_JS[1]),
        ("with_sentry.mjs",),
    ),
    "adk-js": Recording(
        "adk-js",
        ("@google/adk", "@google/genai", "zod", "@opentelemetry/sdk-trace-base@2.12", _EXPORTER_JS[1]),
        ("with_adk.mjs",),
    ),
    "voltagent": Recording(
        "voltagent",
        ("@voltagent/core", "ai@6", "@ai-sdk/openai@3", "zod", "@opentelemetry/sdk-trace-base@2.12", _EXPORTER_JS[1]),
        ("with_voltagent.mjs",),
    ),
    "mastra": Recording(
        "mastra",
        ("@mastra/core", "@mastra/observability", "@mastra/otel-exporter", "@ai-sdk/openai", "zod", _EXPORTER_JS[1]),
        ("with_mastra.mjs",),
    ),
    "logfire-openai-agents-chat": Recording(
        "logfire-agents",
        ("openai-agents", "logfire", "opentelemetry-exporter-otlp-proto-http"),
        ("with_openai_agents.py", "logfire", "chat"),
    ),
    "openllmetry-langchain-0.40": Recording(
        "old-ollm40-lc",
        (
            *("opentelemetry-instrumentation-langchain==0.40.0", "langchain==0.3.25", "langchain-openai==0.3.17"),
            *(
                "langgraph==0.4.5",
                "langgraph-prebuilt==0.1.8",
                "langchain-community==0.3.23",
                "setuptools<80",
                "wrapt<2",
            ),
            *("opentelemetry-sdk==1.33.0", "opentelemetry-exporter-otlp-proto-http==1.33.0"),
        ),
        ("with_langgraph.py", "opentelemetry.instrumentation.langchain:LangchainInstrumentor"),
    ),
    "langfuse-langchain-3.0": Recording(
        "old-lfc",
        ("langfuse==3.0.8", "langchain==0.3.23", "langchain-openai==0.3.12", "langgraph==0.3.27"),
        ("with_langgraph.py", "langfuse"),
    ),
    "adk-1.0": _own("old-adk10", "with_adk_1.py", "google-adk==1.0.0", "setuptools<80", "deprecated"),
    "strands-0.1": Recording(
        "old-strands01", ("strands-agents[openai,otel]==0.1.9", *_EXPORTER), ("with_strands.py", "unnamed")
    ),
    "without-content": _raw(*_GENAI_OPENAI),
    "without-calls": _agents(_OFFICIAL_AGENTS, _OFFICIAL, "chat", _LATEST),
}
_OF_MACHINE = ("code.", "user_agent.")
_PATHS = re.compile(r"(?:/[\w.+-]+)+/(site-packages|node_modules|agents|python3\.\d+)/")
"""Paths of this machine, as in stack traces."""
_KEPT = ("service.name", "telemetry.sdk.language", "telemetry.sdk.name", "telemetry.sdk.version")


@contextmanager
def receiving() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Serve OTLP over HTTP until the end of the block; yield the URL, and a list of what arrives."""
    bodies: list[tuple[str, bytes]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = self.headers.get("Content-Length")
            body = b"".join(self._chunks()) if size is None else self.rfile.read(int(size))
            bodies.append((self.path, gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _chunks(self) -> Iterator[bytes]:
            while size := int(self.rfile.readline(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", bodies
    finally:
        server.shutdown()
        server.server_close()


def environments() -> Path:
    """Return the folder of the environments."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("AGENTV_TRACE_ENVIRONMENTS") or cache / "agentv-traces")


def prepare(recording: Recording) -> list[str]:
    """Return the command that runs the agent, in an environment that is made if it is missing."""
    place, uv = environments() / recording.environment, os.environ.get("UV", "uv")
    agent, *arguments = recording.agent
    if agent.endswith(".mjs"):
        if not (place / "node_modules").exists():
            place.mkdir(parents=True, exist_ok=True)
            subprocess.run(["npm", "install", "--silent", "--prefix", str(place), *recording.packages], check=True)
        (place / agent).write_text((AGENTS / agent).read_text("utf-8"), "utf-8")
        return ["node", str(place / agent)]
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([uv, "venv", "--quiet", str(place)], check=True)
        install = [uv, "pip", "install", "--quiet", "--prerelease=if-necessary-or-explicit", "--python", str(python)]
        subprocess.run([*install, *recording.packages], check=True)
    return [str(python), str(AGENTS / agent), *arguments]


def versions(recording: Recording) -> dict[str, str]:
    """Return the versions of the packages in an environment."""
    place = environments() / recording.environment
    if recording.agent[0].endswith(".mjs"):
        names = [re.split(r"(?<=.)@", package)[0] for package in recording.packages]
        return {
            name: json.loads((place / "node_modules" / name / "package.json").read_text())["version"] for name in names
        }
    python = str(place / "bin" / "python")
    command = [os.environ.get("UV", "uv"), "pip", "list", "--quiet", "--format=json", "--python", python]
    listed = subprocess.run(command, capture_output=True, check=True)
    wanted = ("openai", "opentelemetry-instrumentation", "openinference", "lang", "log", "mlf", "pydantic-ai")
    named = tuple(re.split(r"[<=\[]", package)[0] for package in recording.packages)
    found = {each["name"]: each["version"] for each in json.loads(listed.stdout)}
    return {name: version for name, version in found.items() if name.startswith(wanted) or name in named}


def record(name: str) -> dict[str, object]:
    """Run the agent of one instrumentation, write what it sends, and return its versions and tokens."""
    recording = RECORDINGS[name]
    command = prepare(recording)
    with serving_fake() as model, receiving() as (url, bodies), TemporaryDirectory() as folder:
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "OPENAI_BASE_URL": f"{model.url}/v1",
            "OPENAI_API_KEY": "none",
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "none",
            "GEMINI_BASE_URL": model.url,
            "GOOGLE_GEMINI_BASE_URL": model.url,
            "GOOGLE_API_KEY": "none",
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "LANGFUSE_BASE_URL": url,
            "LANGFUSE_HOST": url,
            "LANGFUSE_PUBLIC_KEY": "pk",
            "LANGFUSE_SECRET_KEY": "sk",
            "DO_NOT_TRACK": "1",
            **({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{url}/v1/traces"} if name.startswith("mlflow") else {}),
            **recording.variables,
        }
        asked = json.dumps({"system": shop.SYSTEM, "questions": shop.QUESTIONS, "model": shop.MODEL})
        done = subprocess.run(
            command, env=variables, cwd=folder, input=asked, capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode:
            sys.exit(f"{name}: {done.stderr}")
        billed = [call for call in model.calls if call.billed]
    _write(name, bodies)
    tokens = {"input": sum(call.input_tokens for call in billed), "output": sum(call.output_tokens for call in billed)}
    return {"versions": versions(recording), "tokens": tokens}


def _write(name: str, bodies: list[tuple[str, bytes]]) -> None:
    traces, logs = ExportTraceServiceRequest(), ExportLogsServiceRequest()
    for path, body in bodies:
        if path.endswith("/logs"):
            logs.MergeFrom(ExportLogsServiceRequest.FromString(body))
        elif path.endswith("/traces"):
            traces.MergeFrom(ExportTraceServiceRequest.FromString(body))
    RECORDED.mkdir(exist_ok=True)
    for resources, suffix, export in (
        (traces.resource_spans, "", traces),
        (logs.resource_logs, ".logs", logs),
    ):
        for each in resources:
            kept = [attribute for attribute in each.resource.attributes if attribute.key in _KEPT]
            del each.resource.attributes[:]
            each.resource.attributes.extend(kept)
        for span in (span for each in traces.resource_spans for scope in each.scope_spans for span in scope.spans):
            kept = [attribute for attribute in span.attributes if not attribute.key.startswith(_OF_MACHINE)]
            del span.attributes[:]
            span.attributes.extend(kept)
        if resources:
            cleaned = Parse(_PATHS.sub(r"\1/", MessageToJson(export)), type(export)())
            (RECORDED / f"{name}{suffix}.pb").write_bytes(cleaned.SerializeToString(deterministic=True))


if __name__ == "__main__":
    facts_file = RECORDED / "recorded.json"
    facts = json.loads(facts_file.read_text()) if facts_file.exists() else {}
    for each in sys.argv[1:] or RECORDINGS:
        facts[each] = record(each)
        print(each, facts[each]["tokens"])
    facts_file.write_text(json.dumps(dict(sorted(facts.items())), indent=1) + "\n")

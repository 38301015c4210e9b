"""`gemini`: a Google model behind the Gemini API or on Vertex AI."""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, cast
from urllib.parse import quote

from msgspec import Meta, Struct

from agentv.providers.apis.credentials import Credentials, FixedHeaders, google_token
from agentv.providers.apis.dialogue import Conversation, Image, Prompt, Turn, tool_function
from agentv.providers.apis.embeddings import EmbeddingModelProvider, vector_of
from agentv.providers.apis.http import HttpRequest, json_request, without_none
from agentv.providers.apis.model_settings import DIMENSIONS_HELP, ModelSettings, check_dimensions, check_url
from agentv.providers.apis.responses import (
    content_filter_error,
    count,
    json_type,
    member,
    objects,
    text_or_none,
    wrong_shape,
)
from agentv.providers.apis.streamed_response import items_of_first_answer, text_in
from agentv.types.errors import TargetError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ToolCall
from agentv.types.messages_json import compact_json
from agentv.types.protocols import ProviderTools
from agentv.types.provider import EmbeddingResponse, ProviderError
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

GEMINI_URL = "https://generativelanguage.googleapis.com"
GEMINI_VERSION, VERTEX_VERSION = "v1", "v1beta1"
_VERSION = re.compile(r"/v\d\w*$")
_FILTER_REASONS = frozenset(
    [
        *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "ESCALATION"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "PUP_LIMITED_DISABLED"),
    ]
)
_MALFORMED_REASONS = frozenset(["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"])


class GeminiSettings(ModelSettings, frozen=True, kw_only=True):
    """The model, its address and the parameters of requests."""

    model: Annotated[str, Meta(description="Name of the model.")] = "gemini-2.5-flash"
    base_url: Annotated[
        str | None,
        Meta(description=f"Base URL of the API, optionally with its version. Default: {GEMINI_URL}, or Vertex."),
    ] = None
    api_key: Annotated[str | None, Meta(description="API key, as ${{ VARIABLE }}; not used with Vertex.")] = None
    project: Annotated[
        str | None, Meta(description="Use Vertex AI in this project, with Google's default credentials.")
    ] = None
    location: Annotated[str | None, Meta(description='Location of Vertex AI. Default: "global".')] = None
    dimensions: Annotated[int | None, Meta(description=DIMENSIONS_HELP)] = None

    def __post_init__(self) -> None:
        """Reject settings that the API does not accept."""
        ModelSettings.__post_init__(self)
        check_dimensions(self.dimensions)
        if self.base_url is not None:
            check_url("base_url", self.base_url)
        if self.batch_api:
            raise ValueError("batch_api is available for azure, openai and anthropic, not for gemini")
        if self.location and not self.project:
            raise ValueError("location is for Vertex, which also needs a project")
        if self.project and self.api_key:
            raise ValueError("api_key cannot be combined with project: Vertex uses Google's default credentials")
        if not (self.project or self.api_key or self.base_url or self.has_header("x-goog-api-key")):
            raise ValueError("api_key is needed, or a project for Vertex; write the key as ${{ GEMINI_API_KEY }}")

    def check_embeddings(self) -> None:
        """Raise TargetError for Vertex: embeddings need the Gemini API."""
        if self.project:
            raise TargetError("embeddings need the Gemini API with api_key; Vertex (project) is not supported")

    @property
    def root_url(self) -> str:
        """The base URL of the API, including its version."""
        where = f"{self.location}-" if self.location and self.location != "global" else ""
        default = f"https://{where}aiplatform.googleapis.com" if self.project else GEMINI_URL
        base_url = (self.base_url or default).rstrip("/")
        if _VERSION.search(base_url):
            return base_url
        return f"{base_url}/{VERTEX_VERSION if self.project else GEMINI_VERSION}"


class ContentDialogue(Struct, frozen=True):
    """Builds requests and parses responses of the generateContent API."""

    settings: GeminiSettings

    def url(self, model: str, method: str = "generateContent") -> str:
        """Return the URL of a method; a `model` with a slash is a whole path (`tunedModels/…`, `publishers/…`)."""
        settings = self.settings
        if settings.project is None:
            path = model if "/" in model else f"models/{model}"
        else:
            place = f"projects/{settings.project}/locations/{settings.location or 'global'}"
            path = f"{place}/{model if '/' in model else f'publishers/google/models/{model}'}"
        return f"{settings.root_url}/{quote(path)}:{method}"

    def initial_items(self, prompt: Prompt) -> tuple[JsonObject, ...]:
        """Return the turns as contents."""
        return tuple(
            {
                "role": "model" if turn.role == "assistant" else "user",
                "parts": [{"text": turn.content}, *map(_image, images)],
            }
            for turn, images in prompt.with_images()
        )

    def build_body(self, conversation: Conversation) -> JsonObject:
        """Return the body of the request for the next turn."""
        turn_settings = self.settings.turn_settings(conversation.request)
        config: dict[str, JsonValue] = {
            "temperature": turn_settings.temperature,
            "maxOutputTokens": turn_settings.max_output_tokens,
            "responseMimeType": turn_settings.schema and "application/json",
            "responseJsonSchema": turn_settings.schema,
        }
        system: JsonObject = {"parts": [{"text": conversation.system}], "role": "user"}
        body: dict[str, JsonValue] = {
            "contents": conversation.items,
            "systemInstruction": system if conversation.system else None,
            "generationConfig": without_none(config) or None,
            "tools": _tools(self.settings.tools) or None,
        }
        return _merged(without_none(body), self.settings.extra_body)

    def build_request(self, conversation: Conversation, auth: Mapping[str, str]) -> HttpRequest:
        """Return the HTTP request for the next turn."""
        streams = self.settings.stream
        method = "streamGenerateContent" if streams else "generateContent"
        url = self.url(conversation.request.model or self.settings.model, method) + ("?alt=sse" if streams else "")
        return json_request(url, self.build_body(conversation), auth, self.settings.extra_headers)

    def parse(self, value: JsonObject) -> Turn:
        """Return the first candidate of a response."""
        blocked = text_or_none(member(value, "promptFeedback", "blockReason"))
        if blocked is not None:
            raise content_filter_error(f"the provider's filter blocked the prompt ({blocked})")
        candidates = objects(value.get("candidates"))
        if not candidates:
            raise wrong_shape("no candidates[0]", value)
        finish_reason = _finish_reason(candidates[0])
        content = candidates[0].get("content")
        parts = member(content, "parts")
        if parts is None and finish_reason is not None:
            parts = []  # a model that stops while thinking has no content
        if not isinstance(parts, list) or not all(map(_is_part, parts)):
            raise wrong_shape("no candidates[0].content.parts", value)
        return Turn(
            text=_text(parts, thought=False),
            tool_calls=tuple(_tool_calls(parts)),
            items=(content,) if isinstance(content, Mapping) else (),
            finish_reason=finish_reason,
            is_cut=finish_reason == "MAX_TOKENS",
            usage=_usage(value.get("usageMetadata")),
            request_id=text_or_none(value.get("responseId")),
            model=text_or_none(value.get("modelVersion")),
            reasoning=_text(parts, thought=True) or None,
        )

    def collector(self) -> "ContentCollector":
        """Return a new collector for the stream of one turn."""
        return ContentCollector()

    def tool_items(self, calls: Sequence[ToolCall]) -> tuple[JsonObject, ...]:
        """Return the outputs of tools as one user turn."""
        return ({"role": "user", "parts": [{"functionResponse": _tool_response(call)} for call in calls]},)


def _finish_reason(candidate: JsonObject) -> str | None:
    """Return the finish reason. Raises ProviderError if it means that there is no answer."""
    reason = text_or_none(candidate.get("finishReason"))
    if reason in _FILTER_REASONS:
        raise content_filter_error(f"the provider's filter stopped the response ({reason})")
    if reason in _MALFORMED_REASONS:
        details = text_or_none(candidate.get("finishMessage"))
        message = f"the provider could not parse the model's response ({reason}){f': {details}' if details else ''}"
        raise ProviderError(Failure("malformed_reply", message))
    return reason


def _is_part(value: JsonValue) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("text", ""), str)


def _image(image: Image) -> JsonObject:
    # Keys in camel and snake case, and URL-safe base64, as Google's own client sends them; other forms also work.
    data = base64.urlsafe_b64encode(image.content).decode()
    return {"inlineData": {"data": data, "mime_type": image.media_type}}


def _tools(tools: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the functions in one group, and each of the API's own tools separately."""
    declarations = [_declaration(function) for tool in tools if (function := tool_function(tool)) is not None]
    own_tools = [tool for tool in tools if tool_function(tool) is None]
    return [{"functionDeclarations": declarations}, *own_tools] if declarations else own_tools


def _declaration(function: JsonObject) -> JsonObject:
    others = {key: value for key, value in function.items() if key not in ("parameters", "strict")}
    schema = function.get("parameters")
    # As in Google's own client; `parameters` would be parsed as Google's schema dialect.
    return others if schema is None else {**others, "parameters_json_schema": schema}


def _text(parts: JsonValue, *, thought: bool) -> str:
    """Return the joined texts of the answer or, with `thought`, of the model's thinking."""
    return "".join(str(part.get("text", "")) for part in objects(parts) if (part.get("thought") is True) == thought)


def _tool_calls(parts: JsonValue) -> list[ToolCall]:
    calls = [member(part, "functionCall") for part in objects(parts)]
    named = [(call, text_or_none(member(call, "name"))) for call in calls]
    return [
        ToolCall(name, member(call, "args"), id=text_or_none(member(call, "id")))
        for call, name in named
        if name is not None
    ]


def _tool_response(call: ToolCall) -> JsonObject:
    """Return the output of a tool; the API accepts objects only."""
    response = call.output if isinstance(call.output, Mapping) else {"result": call.output}
    return without_none({"id": call.id, "name": call.tool, "response": response})


def _merged(body: JsonObject, extra: JsonObject) -> JsonObject:
    """Return a body with more keys, merged recursively into objects such as generationConfig."""
    merged = dict(body)
    for key, value in extra.items():
        existing = merged.get(key)
        if isinstance(existing, Mapping) and isinstance(value, Mapping):
            merged[key] = _merged(existing, value)
        else:
            merged[key] = value
    return merged


def _usage(value: JsonValue) -> Usage | None:
    """Return the usage; thinking tokens count as output, as they are billed."""
    if not isinstance(value, Mapping):
        return None
    sent = count(value, "promptTokenCount") + count(value, "toolUsePromptTokenCount")
    thoughts = count(value, "thoughtsTokenCount")
    generated = count(value, "candidatesTokenCount") + thoughts
    return Usage(
        input=sent,
        output=generated,
        cached_input=count(value, "cachedContentTokenCount"),
        reasoning=thoughts,
        total=count(value, "totalTokenCount") or sent + generated,
        requests=1,
    )


class GeminiEmbeddings(Struct, frozen=True):
    """The embeddings API of the configured model. `extra_body` (such as `taskType`) is added to every text."""

    settings: GeminiSettings
    texts_at_once: int = 100

    @property
    def space(self) -> str:
        """An identifier shared by vectors that can be compared: the address and all parameters except the text."""
        return f"{self._url} {compact_json(self._request(''))}"

    def build_request(self, texts: Sequence[str], auth: Mapping[str, str]) -> HttpRequest:
        """Return the HTTP request for the vectors of texts."""
        body: JsonObject = {"requests": [self._request(text) for text in texts]}
        return json_request(self._url, body, auth, self.settings.extra_headers)

    def parse(self, value: JsonObject) -> EmbeddingResponse:
        """Return the vectors in a response."""
        items = objects(value.get("embeddings"))
        if not items:
            raise wrong_shape("no `embeddings`", value)
        tokens = count(value, "usageMetadata", "promptTokenCount")
        return EmbeddingResponse(
            tuple(vector_of(item.get("values")) for item in items),
            usage=Usage(input=tokens, total=tokens, requests=1) if tokens else None,
        )

    @property
    def _url(self) -> str:
        return ContentDialogue(self.settings).url(self.settings.model, "batchEmbedContents")

    def _request(self, text: str) -> JsonObject:
        model = self.settings.model
        request: dict[str, JsonValue] = {
            "model": model if "/" in model else f"models/{model}",
            "content": {"parts": [{"text": text}]},
            "outputDimensionality": self.settings.dimensions,
        }
        return {**without_none(request), **self.settings.extra_body}


class GeminiProvider(EmbeddingModelProvider):
    """Calls Gemini with an API key, or Vertex AI with Google's default credentials."""

    kind = "gemini"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:
        settings = cast(GeminiSettings, target.settings)
        super().__init__(target, tools, dialogue=ContentDialogue(settings), credentials=make_credentials(settings))
        self.embeddings = GeminiEmbeddings(settings)


def make_credentials(settings: GeminiSettings) -> Credentials:
    """Return the credentials: the key; for Vertex, tokens unless the settings have an authorization header."""
    if settings.api_key:
        return FixedHeaders({"x-goog-api-key": settings.api_key})
    return google_token() if settings.project and not settings.has_header("Authorization") else FixedHeaders({})


_RESPONSE_KEYS = ("candidates", "promptFeedback", "usageMetadata")
_TEXT_KEYS = frozenset({"text", "thought"})


class ContentCollector:
    """Collects a stream. Each event is a response that contains the next parts of the first candidate."""

    is_over = False

    def __init__(self) -> None:
        self._head: dict[str, JsonValue] = {}
        self._candidate: dict[str, JsonValue] = {}
        self._content: dict[str, JsonValue] = {}
        self._parts: list[_Part] = []

    @property
    def is_complete(self) -> bool:
        """True if a finish reason was received, or the prompt was blocked."""
        blocked = member(self._head, "promptFeedback", "blockReason")
        return self._candidate.get("finishReason") is not None or blocked is not None

    def add(self, event: JsonObject) -> int | None:
        """Add a response and return how many characters the model wrote; None if it is not a response of this API."""
        if not any(name in event for name in _RESPONSE_KEYS):
            return None
        self._head.update({name: value for name, value in event.items() if name != "candidates"})
        listed = event.get("candidates")
        if listed is not None and not isinstance(listed, list):
            raise wrong_shape(f"candidates that are {json_type(listed)}", event)
        candidates = items_of_first_answer(listed)
        if not candidates:
            return 0
        candidate = candidates[0]
        self._candidate.update({name: value for name, value in candidate.items() if name != "content"})
        content = candidate.get("content")
        if content is None:
            return 0
        if not isinstance(content, Mapping):
            raise wrong_shape(f"a content that is {json_type(content)}", event)
        self._content.update({name: value for name, value in content.items() if name != "parts"})
        return sum(map(self._add_part, objects(content.get("parts"))))

    def _add_part(self, part: JsonObject) -> int:
        """Add a part, joining a text to the text before it. Return the number of characters."""
        is_text = part.keys() <= _TEXT_KEYS
        if not is_text:
            self._parts.append(_Part(part, None))
            return max(1, len(str(part.get("text", ""))))
        text = text_in(part, "text")
        last = self._parts[-1] if self._parts else None
        if not text and last is not None:
            return 0
        if last is None or last.texts is None or last.part.get("thought") != part.get("thought"):
            self._parts.append(_Part(part, [text]))
        else:
            last.texts.append(text)
        return len(text)

    def value(self) -> JsonObject:
        """Return the response so far."""
        if not self._candidate and not self._content and not self._parts:
            return self._head
        content: JsonObject = {**self._content, "parts": [part.value() for part in self._parts]}
        return {**self._head, "candidates": [{**self._candidate, "content": content}]}


class _Part:
    """A part. `texts` are its pieces if it consists of text alone, else None."""

    def __init__(self, part: JsonObject, texts: list[str] | None) -> None:
        self.part = part
        self.texts = texts

    def value(self) -> JsonObject:
        return self.part if self.texts is None else {**self.part, "text": "".join(self.texts)}

"""Detection of secrets, and their redaction from texts."""

import base64
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus, unquote, unquote_plus, urlsplit

REDACTED = "***"
SHORTEST_SECRET = 8
"""Shorter values do not count as secrets, because they may be ordinary words of a text."""

LONGEST_MESSAGE = 4000

SHORTEST_ENCODED = 16
"""The encoded forms of shorter values are not redacted, because they may occur by chance."""

_SECRET_WORDS = frozenset(
    {"key", "keys", "token", "secret", "secrets", "password", "passwords", "passwd", "pat", "cred", "creds"}
    | {"credential", "credentials", "auth", "authorization", "cookie", "cookies", "session", "dsn"}
)
_SECRET_ENDINGS = ("key", "keys", "token", "secret", "secrets", "password", "passwords", "passwd", "authorization")
"""Endings that make the last word of a name secret: `apikey`, `dbpassword`."""

_PUBLIC_LAST_WORDS = frozenset(
    {"model", "deployment", "endpoint", "host", "region", "file", "path", "dir", "type", "sha"}
)
"""A name that ends in one of these words is not secret, although it has a secret word: `KEY_FILE`, `SESSION_TYPE`."""

_BETWEEN_WORDS = re.compile(r"[_\-.\s\[\]$]+|(?<=[a-z0-9])(?=[A-Z])")
_KEY_PREFIXES = ("sk-", "ghp_", "github_pat_", "AKIA", "eyJ", "xox", "hf_")
_PUBLIC_HEADERS = frozenset({"content-type", "accept", "user-agent"})
_HEADER_VALUES = re.compile(r"[^\s;,=]+=*(?=[\s;,]|$)")
_NUMBER = re.compile(r"[-+]?[0-9.,]+|true|false", re.IGNORECASE)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,40}://\S+")
_SIGNATURES = ("sig", "signature")
"""Endings of query parameters that give access to an object of a store."""

_ECHOED_HEADER = re.compile(
    r"""\b((?:[a-z0-9]{1,20}-){1,6}[a-z0-9]{1,20}|authorization|cookie)["']?[ ]?[:=][ ]?"""
    r"""(?=b?(["'])(.{1,8192}?)\2|([^\r\n"']{1,8192}))""",
    re.IGNORECASE,
)
"""A header in a message: its name, and its value in quotes or to the end of the line, which may have other headers."""


def looks_secret(name: str) -> bool:
    """Return True if a field or variable of that name holds a secret: `api_key`, `GH_PAT`, `OPENAI_API_KEY_2`."""
    words = [word.lower() for word in _BETWEEN_WORDS.split(name) if word and not word.isdigit()]
    if not words or words[-1] in _PUBLIC_LAST_WORDS:
        return False
    return any(word.rstrip("0123456789") in _SECRET_WORDS for word in words) or words[-1].endswith(_SECRET_ENDINGS)


def is_secret_header(name: str) -> bool:
    """Return True for every HTTP header except a few that describe the client and the content."""
    return name.lower() not in _PUBLIC_HEADERS


def secrets_in_header(value: str) -> Iterator[str]:
    """Yield the value of a secret header, and the secrets in it: a token after `Bearer `, the values of cookies."""
    yield value
    yield from (part for part in _HEADER_VALUES.findall(value) if is_secret(part))


def is_secret(value: str) -> bool:
    """Return True if a value that may be a secret is long enough to be one, and not a number or boolean."""
    return len(value) >= SHORTEST_SECRET and not _NUMBER.fullmatch(value)


def has_secret_prefix(value: str) -> bool:
    """Return True if a value begins like the keys of well-known services."""
    return value.startswith(_KEY_PREFIXES) and len(value) >= SHORTEST_SECRET


_KNOWN_KEYS = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-(?:ant|proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{16,}|sk-[A-Za-z0-9]{40,}"  # Anthropic, OpenAI, OpenRouter
    r"|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"  # Stripe
    r"|A(?:KI|SI)A[A-Z0-9]{16}(?![A-Za-z0-9])"  # AWS
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{40,}|glpat-[A-Za-z0-9_-]{20,}"  # GitHub, GitLab
    r"|xox[abeoprs]-[A-Za-z0-9-]{16,}"  # Slack
    r"|AIza[A-Za-z0-9_-]{35}|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{36}"  # Google, Hugging Face, npm
    r")"
)
"""Keys of well-known services by their whole shape, so that no word of a text is one."""

_KEY_MARKS = (
    *("sk-", "k_live_", "k_test_", "AKIA", "ASIA", "glpat-", "xox", "AIza", "hf_", "npm_"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_DATA = re.compile(r"[A-Za-z0-9+/=]{16,}")
_KEY_HEADER = re.compile(r"[A-Za-z-]{1,40}: |$")


def known_keys(text: str) -> Iterator[str]:
    """Yield the keys of well-known services in a text, and the data of private keys, line by line."""
    if any(mark in text for mark in _KEY_MARKS):
        yield from (found[0] for found in _KNOWN_KEYS.finditer(text))
    if "PRIVATE KEY" not in text:
        return
    is_inside = False
    for line in map(str.strip, text.splitlines()):
        if (begin := _PRIVATE_KEY.search(line)) is not None:
            data, end, _ = line[begin.end() :].partition("-----END")
            yield from _KEY_DATA.findall(data) if end else ()
            is_inside = not line[begin.end() :]
        elif is_inside and _KEY_DATA.fullmatch(line):
            yield line
        elif is_inside:
            is_inside = _KEY_HEADER.match(line) is not None


def secrets_in_urls(text: str) -> Iterator[str]:
    """Yield the secrets in the URLs of a text: user-info, signatures, and query values whose name looks secret."""
    for url in _URL.findall(text):
        try:
            parts = urlsplit(url)
        except ValueError:  # brackets in the host
            continue
        user_info = parts.netloc.rpartition("@")[0]
        user, _, password = user_info.partition(":")
        if password or is_secret(user):  # not the `git` of ssh://git@host
            yield f"{user_info}@"
            yield from (*_secret_spellings(user_info), *_secret_spellings(password or user))
        for pair in parts.query.split("&"):
            name, _, value = pair.partition("=")
            name = unquote_plus(name)
            if looks_secret(name) or name.lower().endswith(_SIGNATURES):
                yield from _secret_spellings(value)


def _secret_spellings(written: str) -> Iterator[str]:
    """Yield a part of a URL as written and decoded, each if it is long enough for a secret."""
    yield from (form for form in {written, unquote(written), unquote_plus(written)} if is_secret(form))


def _secrets_in_headers(text: str) -> Iterator[str]:
    """Yield the values of secret headers in a text, and the secrets in them."""
    for name, _, quoted, plain in _ECHOED_HEADER.findall(text):
        if looks_secret(name):
            yield from filter(is_secret, secrets_in_header((quoted or plain).strip()))


def redact_message(text: str, variables: Mapping[str, str]) -> str:
    """Return a message of other software without secrets: those of variables, URLs and headers, and known keys.

    A variable whose value is a path holds no secret. A message of more than LONGEST_MESSAGE characters is cut.
    """
    text = text[: 2 * LONGEST_MESSAGE]  # a secret at the cut is redacted whole
    secrets = {
        *secret_values(variables, exists=os.path.exists),
        *secrets_in_urls(text),
        *_secrets_in_headers(text),
        *known_keys(text),
    }
    redacted = SecretRedactor(secrets).redact(text)
    return redacted if len(redacted) <= LONGEST_MESSAGE else f"{redacted[:LONGEST_MESSAGE]}…"


def secret_values(
    variables: Mapping[str, str], *, public: Collection[str] = (), exists: Callable[[str], bool] = lambda _: False
) -> frozenset[str]:
    """Return the secrets in variables: values with a secret name or a well-known prefix, and the secrets in URLs.

    Variables named in `public` hold no secret. Neither does a path for which `exists` returns True.
    """
    found: set[str] = set()
    for name, value in variables.items():
        if name in public:
            continue
        if "://" in value:
            found.update(secrets_in_urls(value))
        if is_secret(value) and (looks_secret(name) or has_secret_prefix(value)) and not exists(value):
            found.add(value)
    return frozenset(found)


class SecretRedactor:
    """Redacts secrets from texts, including their escaped and encoded forms."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self.forms = sorted({form for secret in secrets if secret for form in forms_of(secret)}, key=len, reverse=True)

    def redact(self, text: str) -> str:
        """Return the text with `***` for every secret."""
        for form in self.forms:
            text = text.replace(form, REDACTED)
        return text


def forms_of(secret: str) -> Iterator[str]:
    """Yield the forms of a secret: unchanged, in JSON and, if it is long, in URLs, base64 and hexadecimal."""
    yield secret
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    if len(secret) < SHORTEST_ENCODED:
        return
    data = secret.encode("utf-8", "surrogatepass")
    for quoted in (quote(data, safe=""), quote(data), quote_plus(data)):
        yield quoted
        yield re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), quoted)
    yield from (data.hex(), data.hex().upper())
    for offset in range(3):
        core = _base64_core(data, offset)
        yield from (core, core.replace("+", "-").replace("/", "_"))


def _base64_core(data: bytes, offset: int) -> str:
    """Return the base64 characters that depend only on `data` when it starts at byte `offset` of a group of three."""
    encoded = base64.b64encode(bytes(offset) + data).decode().rstrip("=")
    start = (0, 2, 3)[offset]  # the characters before it depend on the bytes before `data` as well
    ends_with_group = (offset + len(data)) % 3 == 0
    return encoded[start : None if ends_with_group else -1]

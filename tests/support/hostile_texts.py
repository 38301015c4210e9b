"""Texts that attempt code injection: each tries to leave the mark `owned` on the page that shows it."""

MARK = "document.documentElement.setAttribute('data-owned','yes')"

RUNNING = (
    f"<script>{MARK}</script>",
    f'<img src=x onerror="{MARK}">',
    f'<svg onload="{MARK}"></svg>',
    f"</script></style></title></textarea><script>{MARK}</script>",
    f'"><details open ontoggle="{MARK}">x</details>',
    f'<iframe srcdoc="<script>parent.{MARK}</script>"></iframe>',
    f"<!--><script>{MARK}</script>-->",
)
"""A payload that runs on any page that does not escape it."""

OTHERS = (
    f'<a href="javascript:{MARK}">click</a>',
    "[click](javascript:alert(1)) ![x](https://evil.example/x.png) <https://evil.example>",
    "https://evil.example www.evil.example evil@evil.example @octocat #1 GH-1",
    "`code` ``` ```` | cell | \\| \\ **bold** | ~~~\n# heading\n- item\n</details></sub></code></pre>",
    "\x00\x01\x07\x08\x0b\x0c\x1b[31m\x7f\x85\u2028\u2029\ufeff\ufffe\uffff",
    "\u202eevil\u202c \u2066isolate\u2069 \u200b\u200e\U000e0041",
    "=cmd|' /C calc'!A0",
    "::error::gotcha\n##[error]gotcha\r::set-output name=x::y",
    "]]> <![CDATA[ &amp; &#60; %0A",
    "{{7*7}} ${7*7} {% raw %}",
)
HOSTILE_TEXTS = (*RUNNING, *OTHERS)

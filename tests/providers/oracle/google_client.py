"""Google's client, whose source makes Python warn while it compiles it."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from google import genai
    from google.genai import types

__all__ = ["genai", "types"]

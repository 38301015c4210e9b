"""Spans joined into answers: trees, invocations, conversations, and what arrives late, twice or never."""

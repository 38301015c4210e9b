"""Three pure renderers, one module each: `${{ ENV }}`, `{PLACEHOLDER}` and `{{ name }}`.

They share no code: each has its own rule for how a value may affect the text around it.
"""

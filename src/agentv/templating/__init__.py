"""Three pure renderers, one file each: `${{ ENV }}`, `{PLACEHOLDER}` and `{{ name }}`.

They share no code: each has its own rule for what a value may do to the text around it.
"""

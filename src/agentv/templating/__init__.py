"""Three pure renderers: `${{ ENV }}`, `{PLACEHOLDER}` and `{{ name }}`, and two modules that protect secrets.

The renderers share no code, because each inserts values by rules of its own. `{{ name }}` has two modules, `variables`
and, for paths and filters, `case_variables`. `secrets` redacts texts, and `store_url` shows the URL of a store without
its password.
"""

"""The JSON Schemas in a project's `.agentv/schemas/`, which editors find through the first line of YAML files."""

import json
from collections.abc import Mapping

SCHEMAS = "schemas"
EVAL_SCHEMA = "eval.schema.json"
_FILES = {"eval": EVAL_SCHEMA, "targets": "targets.schema.json"}
_GITIGNORE = "# For editors on this machine; recreate with `agentv schema --write`.\n*\n"


def schema_files() -> Mapping[str, str]:
    """Return the content of every file of the folder by name: the schemas, and a .gitignore for them."""
    from agentv.engine.plugins.loading import load_specs
    from agentv.loading.models.schemas import json_schema

    specs = load_specs()
    schemas = {name: json.dumps(json_schema(kind, specs), indent=2) + "\n" for kind, name in _FILES.items()}
    return {".gitignore": _GITIGNORE, **schemas}

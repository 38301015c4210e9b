"""The stores that judgements of the criteria door can be kept in, by name. Importing this file loads none of them."""

from agentv.registry import Registry, Spec, make_registry

STORES: Registry = make_registry(
    "store",
    (
        Spec(
            "json_file",
            "one file of JSON lines, which each judgement is appended to",
            settings="agentv.storage.judgements.json_file:JsonFileSettings",
            factory="agentv.storage.judgements.json_file:make_json_file",
            aliases=("JsonFile", "JsonFileStorageProvider"),
        ),
        Spec(
            "postgres",
            "the team's PostgreSQL database, a row for each judgement",
            settings="agentv.storage.postgres.judgements:PostgresSettings",
            factory="agentv.storage.postgres.judgements:make_postgres",
            aliases=("Postgres", "PostgresStorageProvider"),
        ),
    ),
)

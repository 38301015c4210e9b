"""Everything that agentv writes and reads back, and the registry of stores by name: `STORES`.

Importing this package imports no store.
"""

from agentv.registry import Registry, StoreSpec, make_registry

STORES: Registry[StoreSpec] = make_registry(
    "store",
    (
        StoreSpec(
            "json_file",
            "one JSON Lines file, to which each judgement is appended",
            settings="agentv.storage.judgements.json_file:JsonFileSettings",
            factory="agentv.storage.judgements.json_file:make_json_file",
            aliases=("JsonFile", "JsonFileStorageProvider"),
        ),
        StoreSpec(
            "postgres",
            "the team's PostgreSQL database, one row for each judgement",
            settings="agentv.storage.postgres.judgements:PostgresSettings",
            factory="agentv.storage.postgres.judgements:make_postgres",
            aliases=("postgresql", "Postgres", "PostgresStorageProvider"),
            run_store="agentv.storage.postgres.store:PostgresStore",
            quota="agentv.storage.postgres.quotas:PostgresQuota",
            password_variable="PGPASSWORD",  # noqa: S106 - its name
        ),
    ),
)

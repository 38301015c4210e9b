"""Files → types: the only reader of YAML, and the only room with models of what people write."""

from agentv.loading.check import Checked, check_paths
from agentv.loading.dotenv import load_env
from agentv.loading.places import find_eval_files, find_home, find_repository_root, find_targets_file
from agentv.loading.project import ProjectConfig, load_project
from agentv.loading.recorded_inputs import MAX_LINE_BYTES, read_recorded_input
from agentv.loading.resolve import resolve_target
from agentv.loading.run_configs import (
    ReadRunConfig,
    load_run_config,
    named_parts_around,
    read_given_entries,
    read_plain_keys,
    unselectable,
)
from agentv.loading.schemas import json_schema
from agentv.loading.settings import content_problems, criteria_named_by, missing_files, named_files, read_settings
from agentv.loading.store_url import NO_STORE, STORE_VARIABLE, choose_store
from agentv.loading.suites import load_suite
from agentv.loading.targets import choose_target, load_targets

__all__ = [
    "MAX_LINE_BYTES",
    "NO_STORE",
    "STORE_VARIABLE",
    "Checked",
    "ProjectConfig",
    "ReadRunConfig",
    "check_paths",
    "choose_store",
    "choose_target",
    "content_problems",
    "criteria_named_by",
    "find_eval_files",
    "find_home",
    "find_repository_root",
    "find_targets_file",
    "json_schema",
    "load_env",
    "load_project",
    "load_run_config",
    "load_suite",
    "load_targets",
    "missing_files",
    "named_files",
    "named_parts_around",
    "read_given_entries",
    "read_plain_keys",
    "read_recorded_input",
    "read_settings",
    "resolve_target",
    "unselectable",
]

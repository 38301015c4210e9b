"""The stored records: a Struct for each kind of line in a run folder. All packages use the same Structs as values.

Fields are written in the order of their definition. A field with its default value is left out of a line, unless it is
declared with `always`. `storage.records` encodes, decodes and upgrades the records (docs/reference/run-folder.md).
"""

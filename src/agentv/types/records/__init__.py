"""The stored records: one Struct per line of a run folder, which is also the value that all other packages use.

Fields are written in the order of their definition. A field with its default value is left out of a line, except one
with `always`. `storage.records` encodes, decodes and upgrades them (docs/reference/run-folder.md).
"""

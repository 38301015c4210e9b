"""The stored shapes: one Struct per line of a run folder, which is also the value that every other room works with.

Fields stand in the order in which they are written. A field that is its default is left out of a line, one with
`always` is written whatever it is. `storage.records` encodes, decodes and upgrades them (formats.md, section 4).
"""

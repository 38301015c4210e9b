"""Conventions of attributes: one file per convention with a reader of what a span says.

`reading` has the table of them, and what a span says by all of them.
"""

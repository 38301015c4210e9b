"""Logs of other programs, read as answers to judge: one file per shape, and `reading.py`, which recognises them.

A shape's file finds the fields of a line; `reading.py` makes an EvaluationInput of them.
"""

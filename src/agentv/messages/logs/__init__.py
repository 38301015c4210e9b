"""Logs of other programs, read as answers to judge.

`services.py` and `mapping.py` know shapes of lines and find the fields in a line of such a shape; `reading.py` chooses
the shape of a line and makes an EvaluationInput of the fields.
"""

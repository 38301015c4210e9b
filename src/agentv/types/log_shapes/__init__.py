"""Logs of other programs, read as answers to judge.

`otel.py`, `services.py` and `mapping.py` find the fields of a line of their shapes; `reading.py` chooses the shape of a
line and makes an EvaluationInput of the fields.
"""

"""Logs of other programs, read as answers to judge.

`otel.py`, `services.py` and `mapping.py` each know some shapes of lines and find the fields in a line of such a shape;
`reading.py` chooses the shape of a line and makes an EvaluationInput of the fields.
"""

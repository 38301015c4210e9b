"""The cases of a run: prepared, called, scored and recorded."""

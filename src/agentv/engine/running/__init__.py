"""The execution of a run: cases are prepared, called, scored and recorded."""

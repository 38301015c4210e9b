"""A run: cases prepared, called, scored and recorded, one after another or side by side."""

"""What may stand in a file: the base of file models, reading values by their types, JSON Schemas."""

"""Models of files: their base class, validation by types, and JSON Schemas."""

"""Cases and rubrics written by a model."""

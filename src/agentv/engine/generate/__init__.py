"""Generation of cases and rubrics by a model."""

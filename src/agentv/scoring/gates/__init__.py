"""Gates: their syntax, their metrics, and the verdict of a run."""

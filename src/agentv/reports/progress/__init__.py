"""Progress displays of a run."""

"""The preview of a run: its plan, its estimated cost, and a probe of its targets."""

"""Commands that make or continue a run: run, resume, retry, rescore, merge, score."""

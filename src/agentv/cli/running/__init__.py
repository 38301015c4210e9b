"""Commands that start or continue a run: run, resume, retry, rescore, merge, score."""

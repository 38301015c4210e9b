"""Work on stored runs: resume, rescore, report, compare over time."""

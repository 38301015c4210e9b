"""Child processes: each runs in a session of its own and ends together with all its descendants."""

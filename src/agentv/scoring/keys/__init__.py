"""Identity: keys of cases, answers and requests, and digests."""

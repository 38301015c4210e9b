"""Identity: keys of cases, answers and requests, digests."""

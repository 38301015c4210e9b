"""Programs that run one job with one harness each, in an environment of their own, and print its measurements."""

"""Stores of single judgements, and calibrations of judges."""

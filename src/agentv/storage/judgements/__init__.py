"""Stores of criteria judgements, and calibrations of judges."""

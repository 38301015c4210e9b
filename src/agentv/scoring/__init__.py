"""Arithmetic on judgements: pure functions of values, without files, clock or network."""

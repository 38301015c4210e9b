"""Arithmetic on judgements: values in, values out; no file, no clock, no network."""

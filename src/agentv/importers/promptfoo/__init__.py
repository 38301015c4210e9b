"""Configurations of promptfoo as eval files and targets."""

"""What people call: evaluate()."""

"""Planning of a run: options, targets, selection and prices become a plan, or errors, before the first call."""

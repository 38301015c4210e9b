"""Before the first call: options, targets, selection and prices become a plan, or an error."""

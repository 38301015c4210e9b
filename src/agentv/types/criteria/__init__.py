"""Values of the criteria API: inputs, criteria with their scales, and judgements."""

"""What is said in spans, in the form of any API: messages, their parts, calls of tools, and the facts of one span."""

"""Servers that agentv itself can be: `fake` stands in for the model APIs when there is no key."""

"""Readers of messages of other programs: one file per shape, recognised by its keys.

`reading` chooses the shape. A message that cannot be read raises MessageError with its place and never becomes an empty
one. No file imports a framework: objects are read by their fields. `messages_json` reads agentv's own messages.
"""

"""Messages as the programs of the world write them, read as Message: one file per shape, recognised by its keys.

`reading` chooses the shape. What is not understood is a MessageError with its place, never an empty message. No file
imports a framework: objects are read by their fields. Messages that agentv wrote itself are read by `messages_json`.
"""

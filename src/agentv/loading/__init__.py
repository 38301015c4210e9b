"""Files → types: the only reader of YAML, and the only room with models of what people write.

Nothing is imported here: what a run does not need of this room, it does not wait for.
"""

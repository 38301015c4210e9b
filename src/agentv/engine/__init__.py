"""The order of things: what is planned, called, judged and recorded, and what is done with stored runs.

Everything that combines several rooms is here; a part that knows one room alone belongs in that room.
"""

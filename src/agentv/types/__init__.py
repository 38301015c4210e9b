"""Frozen Structs, protocols and exceptions, without I/O; imports only the standard library and msgspec."""

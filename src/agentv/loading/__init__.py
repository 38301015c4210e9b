"""Reading of files into types: the only package that reads YAML, with the models of all files that people write.

Nothing is imported here, so that a run loads only the modules that it needs.
"""

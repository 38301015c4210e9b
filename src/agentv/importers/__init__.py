"""Files of other programs and of older versions, made into ours, with a problem at its place for what is lost.

An importer that belongs here knows the files of one program: it recognises them by their content, and either translates
them while they are read (AgentV, Agent Skills) or converts them once, for `agentv convert`. It stands on top of
`loading`, which finds the importers by this reference and imports them when it reads the first file.
"""

IMPORTERS = "agentv.importers.file_importers:FileImporters"
"""The Importers of loading, for `Specs`."""

"""Commands for the machine and the project: doctor, plugins, serve-fake, completion."""

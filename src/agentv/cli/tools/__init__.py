"""Commands about the machine: doctor, plugins, completion, serve-fake."""

"""Commands about eval files: init, check, schema, convert, generate."""

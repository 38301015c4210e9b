"""A package, so that its fixtures end with it: no other event loop can run while a browser is driven."""

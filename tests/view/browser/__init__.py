"""A package, so that fixtures of the scope `package` end with it: no other event loop can run while a browser is driven."""

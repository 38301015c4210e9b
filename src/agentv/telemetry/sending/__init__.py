"""Results sent to collectors and to services that show scores at traces. Only this package calls a network."""

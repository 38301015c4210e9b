"""Programs: started in a session of their own, read, stopped with all they started."""

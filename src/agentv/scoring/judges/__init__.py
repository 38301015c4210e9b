"""How far a judge can be trusted: its agreement with people, and with itself."""

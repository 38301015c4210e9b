"""Files of lines: appending to them, reading them, and their parts in other folders or object stores."""

"""Reports as documents: their blocks, and one renderer for each format that people read."""

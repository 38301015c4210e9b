"""Files that are written for people: cases added with their comments kept, conversions."""

"""The pages of the viewer: each function makes one of them from an address; `page.py` has what all share."""

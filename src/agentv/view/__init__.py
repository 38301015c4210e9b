"""The local viewer: pages of stored runs in a browser, made by a server on this machine.

Here belongs what a browser asks for: access, addresses, pages, and the review of answers. What a page shows comes from
`engine`, `storage` and the parts of the HTML report.
"""

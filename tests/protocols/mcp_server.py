"""An MCP server for tests, made with the SDK: `python mcp_server.py [http PORT]`."""

import os
import sys

from mcp.server.mcpserver import Image, MCPServer
from pydantic import BaseModel

server = MCPServer("orders")


class Order(BaseModel):
    id: str
    euros: float


@server.tool()
def find_order(order: str) -> Order:
    """Find an order."""
    if order != "7":
        raise ValueError(f"no order {order}; the key is {os.environ.get('SHOP_API_KEY', 'none')}")
    return Order(id=order, euros=12.5)


@server.tool(structured_output=False)
def shout(text: str) -> str:
    """Return a text in capitals."""
    return text.upper()


@server.tool(structured_output=False)
def picture() -> Image:
    """Return a small picture."""
    return Image(data=b"\x89PNG", format="png")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["http", port]:
            server.run("streamable-http", port=int(port), host="127.0.0.1")
        case _:
            server.run()

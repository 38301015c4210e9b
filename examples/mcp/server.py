from mcp.server.mcpserver import MCPServer

server = MCPServer("orders", log_level="ERROR")
SENT = {"7": "on its way", "8": "delivered"}


@server.tool()
def find_order(order: str) -> str:
    """Tell where an order is."""
    if order not in SENT:
        raise ValueError(f"there is no order {order}")
    return f"Order {order} is {SENT[order]}."


if __name__ == "__main__":
    server.run()

"""A PostgreSQL server on loopback that lets every client in, and then answers nothing."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_LET_IN = b"R" + (8).to_bytes(4, "big") + bytes(4) + b"Z" + (5).to_bytes(4, "big") + b"I"
"""AuthenticationOk and ReadyForQuery of PostgreSQL's protocol."""


@contextmanager
def hanging_postgres() -> Iterator[str]:
    """Yield the URL of such a server; a client may wait two seconds for an answer, the least that libpq takes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        clients: list[socket.socket] = []

        def serve() -> None:
            with suppress(OSError):  # the server is closed
                while True:
                    client, _ = server.accept()
                    clients.append(client)
                    client.recv(4096)
                    client.sendall(_LET_IN)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"postgresql://ann:s3cret-pw@127.0.0.1:{server.getsockname()[1]}/evals?sslmode=disable&connect_timeout=2"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for client in clients:
            client.close()

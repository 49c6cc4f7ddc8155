"""A TCP proxy that cuts its connections after a random number of bytes, in the middle of whatever is under way."""

from __future__ import annotations

import random
import socket
import struct
import threading


class CuttingProxy:
    """Passes bytes between clients and a service. While it cuts, each connection has a number of bytes to live."""

    def __init__(self, host: str, port: int, seed: int) -> None:
        self._service = (host, port)
        self._random = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        #: How many connections were cut.
        self.cuts = 0
        #: Most bytes of requests and of answers that a connection lives for; none while nothing is cut.
        self.most: tuple[int, int] | None = None
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            service = socket.create_connection(self._service)
        except OSError:
            client.close()
            return
        with self._lock:
            sent = answered = None
            if self.most is not None:
                # It dies while it asks or while it is answered, whichever comes first.
                sent, answered = (self._random.randrange(most) for most in self.most)
        pair = (client, service)
        threading.Thread(target=self._pass_on, args=(client, service, sent, pair), daemon=True).start()
        self._pass_on(service, client, answered, pair)

    def _pass_on(
        self, source: socket.socket, target: socket.socket, left: int | None, pair: tuple[socket.socket, socket.socket]
    ) -> None:
        try:
            while piece := source.recv(65536):
                if left is not None and len(piece) > left:
                    target.sendall(piece[:left])
                    with self._lock:
                        self.cuts += 1
                    self._cut(pair)
                    return
                target.sendall(piece)
                if left is not None:
                    left -= len(piece)
            target.shutdown(socket.SHUT_WR)
            if source is pair[1]:
                # The answers are over, and so is the connection.
                self._cut(pair)
        except OSError:
            self._cut(pair)

    def _cut(self, pair: tuple[socket.socket, socket.socket]) -> None:
        for end in pair:
            # Half of them at once, with a reset; the others with an ordinary end.
            if self._random.random() < 0.5:
                try:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                except OSError:
                    pass
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

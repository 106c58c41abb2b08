"""A TCP proxy between clients and a coordinator: counts bytes, cuts links, lets them fall silent in one direction."""

from __future__ import annotations

import contextlib
import math
import selectors
import socket
import threading
import time
from collections import deque
from types import TracebackType


class Proxy:
    """Listens as long as it is entered, and passes all on, late if so wanted, to a target, which may be absent.

    It takes in at once whatever clients send, and passes it on at `up_bytes_per_s`, as a tunnel may.
    """

    def __init__(self, target: str = "", delay_s: float = 0.0, up_bytes_per_s: float = math.inf) -> None:
        self.target = target
        self._delay_s = delay_s
        self._up_bytes_per_s = up_bytes_per_s
        self._up_at = 0.0
        self._up: deque[tuple[float, socket.socket, bytes]] = deque()
        self._down: deque[tuple[float, socket.socket, bytes]] = deque()
        self.num_connections = 0
        self.num_bytes_up = 0
        self.num_bytes_down = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listener.getsockname())
        self._others: dict[socket.socket, socket.socket] = {}
        self._from_target: set[socket.socket] = set()
        self._muted = False
        self._cut = False
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="proxy")

    def cut(self) -> None:
        """Cut every link there is now; later ones work again."""
        self._cut = True

    def mute_coordinator(self) -> None:
        """Let nothing more that the coordinator says come through, until the links are cut."""
        self._muted = True

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closed = True
        self._thread.join()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector, self._listener:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._closed:
                for key, _ in selector.select(timeout=0.01):
                    assert isinstance(key.fileobj, socket.socket)
                    if key.fileobj is self._listener:
                        self._accept(selector)
                    else:
                        self._pass_on(key.fileobj, selector)
                self._deliver()
                if self._cut:
                    self._drop(list(self._others), selector)
                    self._muted = self._cut = False
            self._drop(list(self._others), selector)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        client, _ = self._listener.accept()
        self.num_connections += 1
        host, _, port = self.target.rpartition(":")
        try:
            target = socket.create_connection((host, int(port or 1)), timeout=5.0)
        except OSError:
            client.close()
            return
        self._others |= {client: target, target: client}
        self._from_target.add(target)
        for end in (client, target):
            selector.register(end, selectors.EVENT_READ)

    def _pass_on(self, end: socket.socket, selector: selectors.BaseSelector) -> None:
        if end not in self._others:
            return
        try:
            content = end.recv(65536)
            due_at = time.monotonic() + self._delay_s
            if end not in self._from_target:
                self.num_bytes_up += len(content)
                self._up_at = max(due_at, self._up_at) + len(content) / self._up_bytes_per_s
                self._up.append((self._up_at, self._others[end], content))
            elif content:
                self.num_bytes_down += len(content)
                if not self._muted:
                    self._down.append((due_at, self._others[end], content))
        except OSError:
            content = b""
        if not content:
            self._drop([end, self._others[end]], selector)

    def _deliver(self) -> None:
        """Send what is due; to an end that is gone nothing can be sent, and reading there will tell."""
        for late in (self._up, self._down):
            while late and late[0][0] <= time.monotonic():
                _, end, content = late.popleft()
                with contextlib.suppress(OSError):
                    end.sendall(content)

    def _drop(self, ends: list[socket.socket], selector: selectors.BaseSelector) -> None:
        for end in ends:
            selector.unregister(end)
            self._from_target.discard(end)
            del self._others[end]
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

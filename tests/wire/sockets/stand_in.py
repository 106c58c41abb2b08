"""A child for tests of the pipe; `test_child.py` has it started in the place of `python`.

stand_in.py -I -m MODULE --pipe FD BEHAVIOUR
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import threading

from wire.sockets.pipe import ChildPipe


def behave(pipe: ChildPipe, behaviour: str) -> None:
    """Do what a test wants of the child."""
    if behaviour == "echo":
        while True:
            pipe.send(pipe.receive())
    elif behaviour == "report":
        answers = [os.environ.get("OMP_NUM_THREADS", ""), str(os.getsid(0) == os.getpid()), *sys.argv]
        pipe.send(["\n".join(answers).encode()])
        pipe.receive()
    elif behaviour == "peek":
        while True:
            frames = pipe.receive()
            pipe.send([*frames, b"more" if pipe.has_message() else b"last"])
    elif behaviour == "fail":
        print("what went wrong", file=sys.stderr, flush=True)
        os._exit(7)
    elif behaviour == "announce too much":
        with socket.socket(fileno=os.dup(int(sys.argv[sys.argv.index("--pipe") + 1]))) as raw:
            raw.sendall(struct.pack("<4I", 2, 2**32 - 1, 2**32 - 1, 0))
        threading.Event().wait(60.0)
    elif behaviour == "deaf":
        threading.Event().wait(60.0)
    elif behaviour == "busy":
        pipe.send([b"busy"])
        sum(range(10**12))
    elif behaviour == "kill yourself":
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Serve until the daemon closes the pipe."""
    pipe = ChildPipe(int(sys.argv[sys.argv.index("--pipe") + 1]))
    try:
        behave(pipe, sys.argv[-1])
    except EOFError:
        return


if __name__ == "__main__":
    main()

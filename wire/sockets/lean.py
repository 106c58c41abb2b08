"""Daemons without OpenSSL: Python loads it for asyncio and hashlib, and here it would be 4.6 MB that nobody uses.

ZeroMQ does the encryption, and the few short digests of a daemon are served by Python's own code. Both modules are
made to work where Python was built without OpenSSL, so they are simply imported as if it were; whatever imports `ssl`
later gets the real one.
"""

import sys
from importlib import import_module


def keep_openssl_out() -> None:
    """Import asyncio and hashlib without OpenSSL; to be called before anything else imports them."""
    if "asyncio" in sys.modules or "hashlib" in sys.modules:
        return
    hidden = ("ssl", "_hashlib")
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: importing it raises ImportError
    try:
        import_module("asyncio")
        import_module("hashlib")
    finally:
        for name in hidden:
            del sys.modules[name]

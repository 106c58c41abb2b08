"""What travels between the processes: messages, payloads, their encoding, and the sockets they go through.

`PROTOCOL.md` beside this file is the specification.
"""

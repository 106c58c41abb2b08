"""Every limit of the protocol, in one place; `PROTOCOL.md` (Limits) states them for other implementations."""

DEFAULT_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""The largest message, all frames together, unless `[transport] max_message_bytes` says otherwise."""

MAX_MESSAGE_BYTES = 2**31 - 1
"""The most that `[transport] max_message_bytes` may say, so the largest message that a client ever takes."""

MAX_HEADER_BYTES = 256 * 1024
"""The largest header frame: holds a welcome with `MAX_CLASSES` short names."""

MAX_HEADER_ITEMS = 65_536
"""All values, lists, maps and map keys of one header, counted together."""

MAX_DEPTH = 16
"""Lists and maps inside each other, the header's own list being the first."""

MAX_STRING_BYTES = 65_536
"""The longest text in a header, in UTF-8."""

MAX_ARRAYS = 4_096
"""Arrays of one payload."""

MAX_NAME_BYTES = 256
"""The name of an array or scalar, in UTF-8."""

MAX_RANK = 8
"""Dimensions of one array."""

MAX_ENTRIES = 2**40
"""Entries of one array, an empty dimension counted as 1: keeps shapes such as (0, 2**62) out of numpy."""

MAX_SAMPLES = 2**32 - 1
"""Samples that a client may announce, of a class and together: what a `u32` count holds."""

MAX_CLASSES = 32_700
"""Classes of a run's label map: a `Ready` has two counts of each among its items. Class ids, `u16`, could name more."""

MAX_UNIVERSE = 2**31
"""The positions that an index set chooses among: sums of positions stay inside 64 bits."""

UNASKED_BYTES = 1024 * 1024
"""A larger uplink is offered first and waits for its grant."""

MAX_SOUNDING_BYTES = 60 * 1024
"""A sounding, all frames together; a longer one gets no echo. It fits into any `[transport] max_message_bytes`."""

WHOLE_BYTES = 64 * 1024
"""A message of the joined form that is no longer is one part. Any `[transport] max_message_bytes` allows that part."""

PIECE_BYTES = 256 * 1024
"""The parts that the buffer of a longer one is cut into where it is encrypted: large beside what each of them costs."""

MAX_PARTS = 8_193
"""Parts of a message: the largest `[transport] max_message_bytes` in pieces, and what stands before them."""

MAX_TIMING_BYTES = 255
"""The timing behind an update, in the joined form."""

SOUNDINGS_PER_MINUTE = 64
"""More of one client get no echo."""

SILENT_HEARTBEATS = 2
"""Heartbeats without a word after which each side takes the other for lost."""

PIPE_BYTES = 2**32
"""A message between a process and its child, or in a store: what the network may carry was limited before."""


def shortened(text: str, most: int) -> str:
    """Return a text in so many characters at most: its beginning, and more of its end, where an error is named."""
    if len(text) <= most:
        return text
    gap, head = " ... ", most // 4
    return text[:head] + gap + text[len(text) - (most - head - len(gap)) :]

"""What stands in the code blocks of our Markdown."""

from __future__ import annotations

import re


def code_blocks(text: str, language: str = "") -> list[str]:
    """Return the content of a text's code blocks of a language, by default of those that name none."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [content for found, content in blocks if found == language]

"""Where each key of a TOML document was written.

``tomllib`` gives values without positions, so this reads the same text again and notes the line of
every key and array element.  It is run only on text that ``tomllib`` has accepted, so it never has
to judge it.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right

__all__ = ["KeyPath", "key_lines"]

KeyPath = tuple[str | int, ...]
"""The way to a value: keys of tables, and positions in arrays from 0."""

_BLANK = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# The multi-line forms first; up to two more quotes may stand before the closing three.
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})' r"|'''.*?'''(?:'{0,2})" r'|"(?:[^"\\]|\\.)*"' r"|'[^']*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]*")


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line of each key, table and array element of a valid TOML document, counted from 1."""
    return _Scanner(text.replace("\r\n", "\n")).document()


class _Scanner:
    """One pass over the text; ``at`` is where it stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.newlines = [match.start() for match in re.finditer("\n", text)]
        self.lines: dict[KeyPath, int] = {}
        self.elements: dict[KeyPath, int] = {}  # arrays of tables: how many elements so far

    def document(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        self.blank()
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.pair(table)
            self.blank()
        return self.lines

    def header(self) -> KeyPath:
        line = self.line()
        of_array = self.text.startswith("[[", self.at)
        self.skip("[[" if of_array else "[")
        keys = self.keys()
        self.skip("]]" if of_array else "]")
        path: KeyPath = ()
        for position, key in enumerate(keys, 1):
            path = (*path, key)
            if position < len(keys):
                self.lines.setdefault(path, line)
                if path in self.elements:  # the table belongs to the array's latest element
                    path = (*path, self.elements[path] - 1)
        if of_array:
            self.lines.setdefault(path, line)
            self.elements[path] = self.elements.get(path, 0) + 1
            path = (*path, self.elements[path] - 1)
        self.lines[path] = line
        return path

    def pair(self, table: KeyPath) -> None:
        line = self.line()
        path = table
        for key in self.keys():
            path = (*path, key)
            self.lines.setdefault(path, line)
        self.skip("=")
        self.value(path)

    def value(self, path: KeyPath) -> None:
        self.blank()
        start = self.text[self.at]
        if start in "\"'":
            self.match(_STRING)
        elif start == "[":
            self.array(path)
        elif start == "{":
            self.inline_table(path)
        else:
            self.match(_SCALAR)

    def array(self, path: KeyPath) -> None:
        self.skip("[")
        index = 0
        while self.text[self.at] != "]":
            self.lines[(*path, index)] = self.line()
            self.value((*path, index))
            index += 1
            self.blank()
            if self.text[self.at] == ",":
                self.skip(",")
        self.skip("]")

    def inline_table(self, path: KeyPath) -> None:
        self.skip("{")
        while self.text[self.at] != "}":
            self.pair(path)
            self.blank()
            if self.text[self.at] == ",":
                self.skip(",")
        self.skip("}")

    def keys(self) -> list[str]:
        """A key, or several joined by dots."""
        keys = []
        while True:
            self.blank()
            if self.text[self.at] in "\"'":
                # tomllib knows the escapes.
                keys.append(next(iter(tomllib.loads(f"{self.match(_STRING)} = 0"))))
            else:
                keys.append(self.match(_BARE_KEY))
            self.blank()
            if self.text[self.at] != ".":
                return keys
            self.at += 1

    def blank(self) -> None:
        """Skip white space, line ends and comments."""
        self.match(_BLANK)

    def skip(self, token: str) -> None:
        """Skip a token that must be here, and what is blank after it."""
        self.at += len(token)
        self.blank()

    def match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise ValueError(f"line {self.line()}: not the TOML that tomllib accepted")
        self.at = match.end()
        return match.group()

    def line(self) -> int:
        return bisect_right(self.newlines, self.at - 1) + 1 if self.at else 1

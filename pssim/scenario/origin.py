"""Where every setting of a scenario came from: a line of a file, or an option of the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pssim.scenario.locate import KeyPath

__all__ = ["Mark", "Origin", "dotted"]


def dotted(path: KeyPath) -> str:
    """A path as people write it: ``scheme.0.delay``."""
    return ".".join(map(str, path))


@dataclass(frozen=True, slots=True)
class Mark:
    """One place: a line of the file, or else an option of the command line."""

    line: int = 0
    option: str = ""


@dataclass
class Origin:
    """The settings as they were written, and the place of each of them.

    ``file`` is how the file is spelt in messages, ``short`` in tables.
    """

    file: str
    short: str
    raw: dict[str, Any] = field(default_factory=dict)
    marks: dict[KeyPath, Mark] = field(default_factory=dict)

    def mark(self, path: KeyPath) -> Mark:
        """The mark of this setting, or of the nearest one around it."""
        while path and path not in self.marks:
            path = path[:-1]
        return self.marks.get(path, Mark(line=1))

    def place(self, path: KeyPath) -> str:
        """The place for a message: ``a/b.toml:14`` or ``--set``."""
        mark = self.mark(path)
        return mark.option or f"{self.file}:{mark.line}"

    def source(self, path: KeyPath) -> str:
        """The place for a table: ``b.toml:14``, ``--set`` or ``default``."""
        mark = self.mark(path)
        return (mark.option or f"{self.short}:{mark.line}") if self.is_given(path) else "default"

    def is_given(self, path: KeyPath) -> bool:
        """Whether the setting was written anywhere."""
        value: Any = self.raw
        for key in path:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                return False
        return True

    def forget(self, path: KeyPath) -> None:
        """Drop the marks of this setting and of all within it, because it is replaced."""
        for known in [known for known in self.marks if known[: len(path)] == path]:
            del self.marks[known]

"""Everything that imports torch; nothing else in pssim does."""

from __future__ import annotations

__all__: list[str] = []

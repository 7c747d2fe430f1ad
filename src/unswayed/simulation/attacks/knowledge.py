"""What an attack knows: the walls between the coalition and the world."""

from __future__ import annotations

from enum import Flag


class Knowledge(Flag):
    """What a coalition knows beyond its own accounts, its aim and the size of the world.

    An oblivious attack knows nothing more; flags combine with ``|``.
    """

    OBLIVIOUS = 0
    BANDIT = 1
    ALGORITHM = 2
    HISTORIES = 4

    @property
    def letters(self) -> str:
        """Return the short form: O, or the letters B, A and H of what is known.

        >>> (Knowledge.HISTORIES | Knowledge.ALGORITHM).letters
        'AH'
        """
        return "".join(flag.name[0] for flag in self if flag.name) or "O"


class ForbiddenKnowledgeError(RuntimeError):
    """An attack asked for something that it does not claim to know."""

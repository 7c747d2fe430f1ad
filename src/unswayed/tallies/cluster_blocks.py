"""Blocks of users on a cluster: added up over the parts of a log and over the logs of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unswayed.errors import InputError, option
from unswayed.events import Labels, Provenance
from unswayed.tallies.blocks import DaskBlocks
from unswayed.tallies.cluster_parts import ReadPart
from unswayed.tallies.collected import Collected, merged_collections, users_of_block
from unswayed.tallies.digest import digest_of, digest_text
from unswayed.tallies.store import Index, has_piece, load_piece, save_index, write_piece


def shuffled(
    client: Any, parts: Sequence[Any], n_blocks: int, labels: tuple[Labels, Labels]
) -> DaskBlocks[Collected]:
    """Return blocks of users, each added up over all parts."""
    blocks = []
    for block in range(n_blocks):
        slices = [client.submit(_users, part, n_blocks, block, pure=False) for part in parts]
        blocks.append(client.submit(_merged, slices, *labels, pure=False))
    return DaskBlocks(client, blocks)


def with_log(before: Index, blocks: DaskBlocks[Collected], provenance: Provenance) -> Index:
    """Return the index with a log that lies in blocks; refuse it if it is in already."""
    digest = digest_text(blocks.map_blocks(digest_of))
    return before.with_log(digest, provenance.to_json(), provenance.bins)


def stored_blocks(
    client: Any, fresh: DaskBlocks[Collected], folder: Path, before: Index, index: Index
) -> DaskBlocks[Collected]:
    """Add blocks to those of a folder, and return what it holds then.

    The new pieces are read back from the folder: were they kept as sums of the old ones, a worker
    that dies would need files that are gone by then.
    """
    labels = (index.context_labels, index.action_labels)
    pieces = [client.submit(load_piece, before, folder, name, pure=False) for name in before.pieces]
    old = shuffled(client, pieces, fresh.n_blocks, labels).futures if pieces else []
    names = index.piece_names(fresh.n_blocks)
    written = []
    for block, (name, part) in enumerate(zip(names, fresh.futures, strict=True)):
        both = [*([old[block]] if pieces else []), part]
        total = client.submit(_merged, both, *labels, pure=False)
        written.append(client.submit(write_piece, folder, name, total, pure=False))
    client.gather(written)
    if not all(has_piece(folder, name) for name in names):
        raise InputError(
            f"the workers wrote their tallies to {folder}, and this machine does not see them; "
            f"give {option('--tallies')} a folder that all machines share."
        )
    save_index(folder, replace(index, pieces=names))
    return DaskBlocks(
        client, [client.submit(load_piece, index, folder, name, pure=False) for name in names]
    )


def _users(part: ReadPart | Collected, n_blocks: int, block: int) -> Collected:
    collected = part.collected if isinstance(part, ReadPart) else part
    return users_of_block(collected, n_blocks, block)


def _merged(slices: list[Collected], context_labels: Labels, action_labels: Labels) -> Collected:
    return merged_collections(slices, context_labels=context_labels, action_labels=action_labels)

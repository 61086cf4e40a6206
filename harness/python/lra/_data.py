"""lra.dataset and lra.generate: the tasks' data as torch Datasets."""

import json
import os
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.utils.data

from lra import _lra
from lra._native import check_seed


class Batch(NamedTuple):
    """What a model is given.

    tokens [B,N] int64, padded with 0; mask [B,N] bool, true = a token; labels [B] int64. Of a task
    with S sequences a sample (2 of Retrieval, 3 of images in colour) tokens and mask are [B,S,N].
    """

    tokens: torch.Tensor
    mask: torch.Tensor
    labels: torch.Tensor


def _no_data(folder: str) -> str:
    """What to do about a folder that is not a task's."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    tasks = [n for n in names if os.path.exists(os.path.join(folder, n, "manifest.json"))]
    if tasks:
        return f"{folder} holds data of {', '.join(tasks)}: give {os.path.join(folder, tasks[0])}"
    made = os.path.join(folder, "TASK")
    return f"{folder} holds no prepared data; lra data prepare TASK --out {folder} makes {made}"


def _check_name(folder: str) -> None:
    """Refuses a folder of prepared data that is not named by its task."""
    try:
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
            task = json.load(file)["task"]
    except (OSError, ValueError, TypeError, KeyError):
        return  # what is wrong with it is said otherwise
    if task != os.path.basename(folder):
        raise _lra.Error(f"{folder} holds the data of task {task}: rename it to {task}") from None


class Dataset(torch.utils.data.Dataset[tuple[Any, int]]):
    """A split of prepared data, mapped into memory.

    dataset[i] is (ids, label): ids a tensor [n], or a tuple of one a sequence (two of Retrieval,
    three of images in colour); label an int.

    task, split: their names. manifest: a dict, how the data were made. classes: how many labels
    there are. vocabulary: ids are below it; 0 is padding. inputs: sequences a sample. length: the N
    of collate(), or None. mask, cut, brackets: as the options of a protocol's `input`. mask: what
    is hidden: "length" (what stands behind a sample), "nonzero" (every id 0) or "none". cut: tokens
    that collate() keeps of a sample before it pads, 0: length. brackets: of ListOps, "keep" or
    "drop", by which ids are renumbered. Raises lra.UsageError on another mask or other brackets, on
    brackets dropped of a task without them, and on a task whose labels stand at positions (mqar);
    lra.Error where the split is not what was prepared, by its SHA-256.
    """

    _is_checked = False  # against its SHA-256: once, and not in every worker that gets a copy

    def __init__(
        self,
        folder: str | os.PathLike,
        split: str,
        length: int | None = None,
        mask: str = "length",
        cut: int = 0,
        brackets: str = "keep",
    ) -> None:
        if mask not in ("length", "nonzero", "none"):
            raise _lra.UsageError(f"mask should be length, nonzero or none, not '{mask}'")
        for name, number, least in (("length", length, 1), ("cut", cut, 0)):
            if number is not None and number < least:
                raise _lra.UsageError(f"{name} should be at least {least}, not {number}")
        self.folder, self.split, self.length = os.path.abspath(folder), split, length
        self.mask, self.cut, self.brackets = mask, cut, brackets
        self.task = os.path.basename(self.folder)
        self._opened_by = (self.folder, split, length, mask, cut, brackets)
        try:
            place = os.path.dirname(self.folder)
            self._data = _lra.Data(place, self.task, split, brackets, not self._is_checked)
        except _lra.UsageError:
            if not os.path.exists(os.path.join(self.folder, "manifest.json")):
                raise _lra.Error(_no_data(self.folder)) from None
            _check_name(self.folder)
            raise
        self._is_checked = True
        self.manifest: dict[str, Any] = json.loads(self._data.manifest())
        self.classes: int = self.manifest["classes"]
        self.vocabulary: int = self.manifest["vocabulary"]
        self.inputs: int = self.manifest.get("inputs", 1)

    def __len__(self) -> int:
        return self._data.size()

    def __getitem__(self, index: int) -> tuple[torch.Tensor | tuple[torch.Tensor, ...], int]:
        tokens = self._data.tokens(index)
        return (tokens[0] if self.inputs == 1 else tuple(tokens)), self._data.label(index)

    def text(self, index: int, input: int = 0) -> str:
        """A sample to look at."""
        return self._data.rendered(index, input)

    def collate(self, samples: Sequence[tuple[Any, int]]) -> Batch:
        """A batch of samples, for `collate_fn` of a DataLoader.

        Padded to `length` and cut there; without it padded to the longest of them.
        """
        rows = [ids if isinstance(ids, tuple) else (ids,) for ids, _ in samples]
        longest = self.length or max(len(ids) for row in rows for ids in row)
        tokens = torch.zeros(len(rows), self.inputs, longest, dtype=torch.int64)
        mask = torch.zeros(len(rows), self.inputs, longest, dtype=torch.bool)
        for b, row in enumerate(rows):
            for j, ids in enumerate(row):
                kept = ids[: min(longest, self.cut or longest)]
                tokens[b, j, : len(kept)] = kept
                mask[b, j, : len(kept)] = True
        if self.mask == "nonzero":
            mask = tokens != 0
        elif self.mask == "none":
            mask = torch.ones_like(mask)
        labels = torch.tensor([label for _, label in samples])
        if self.inputs == 1:
            tokens, mask = tokens.squeeze(1), mask.squeeze(1)
        return Batch(tokens, mask, labels)

    def __repr__(self) -> str:
        stand_in = ", SYNTHETIC data" if self.manifest.get("synthetic") else ""
        return f"<{self.task} {self.split}: {len(self)} samples of {self.classes} classes{stand_in}>"

    def __reduce__(self):
        return _remade, (type(self), Dataset, self._opened_by), self._state()

    def _state(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_data"}


class _Generated(Dataset):
    """One in a folder of its own, which goes with it. Unpickled it is made anew, as in each worker that is spawned."""

    def __init__(self, task: str, options: dict[str, Any], length: int | None) -> None:
        self._made_by = (task, options, length)
        self._is_checked = True  # nobody else has had it
        with tempfile.TemporaryDirectory(prefix="lra-") as out:
            _lra.prepare(task=task, out=out, **options)
            super().__init__(os.path.join(out, task), "train", length)  # stays mapped

    def __reduce__(self):
        return _remade, (type(self), _Generated, self._made_by), self._state()


def _remade(cls, base, arguments):
    """One of the class as `base` makes it; what was set on it since is the state of the copy."""
    made = cls.__new__(cls)
    made._is_checked = True
    base.__init__(made, *arguments)
    return made


def dataset(
    folder: str | os.PathLike, split: str = "train", length: int | None = None
) -> Dataset:
    """A split ("train", "dev" or "test") of what `lra data prepare TASK --out data` wrote.

    folder: data/TASK. length: the N of its batches. Raises lra.Error where there is nothing, and
    says how to prepare it, or where the split is not what was prepared.
    """
    return Dataset(folder, split, length)


def generate(
    task: str,
    count: int,
    seed: int = 0,
    *,
    length: int | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    resolution: int | None = None,
    difficulty: str = "",
) -> Dataset:
    """`count` fresh samples of a task that is generated (listops, pathfinder, pathx).

    They depend on the arguments alone, and are not those that `lra data prepare` makes with that
    seed. min_length, max_length: tokens a sample, both excluded (ListOps). resolution: pixels a
    side; difficulty: easy, intermediate or hard (Pathfinder). length: the N of batches.
    """
    check_seed(seed)
    numbers = {"min_length": min_length, "max_length": max_length, "resolution": resolution}
    given = {name: value for name, value in numbers.items() if value is not None}
    options = {"seed": seed, "count": count, "numbers": given, "difficulty": difficulty}
    return _Generated(task, options, length)

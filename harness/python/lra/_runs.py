"""lra.load_run and lra.records: what the program has trained and measured."""

import csv
import io
import json
import os
import re
import warnings
from typing import Any

import torch

from lra import _lra, _modules
from lra._data import Dataset
from lra._generators import exclusive
from lra._native import NativeModule


# Python's own readers take more: int("2024_01_05"), float("nan").
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_WORDS = {"": None, "true": True, "false": False}
# Columns of records that are text whatever they hold: the regime "2021" is no number.
_TEXTS = frozenset(
    """attention options protocol protocol_sha256 own_settings_sha256 settings_sha256 overridden
    regime settings sets pretrained metric dtype device kernels machine processor_model status reason data
    data_source data_variant source fingerprint contract contract_failures package task scope mode batch_policy
    memory_unit time_unit noisy budget measure kind op part pass path row""".split()
)


class TrainedModel(NativeModule):
    """The model of a run at a checkpoint, in evaluation mode."""

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """tokens [B,N] int64, mask [B,N] bool -> logits [B,classes], or [B,N,classes] where labels
        stand at positions.

        Of a task with several sequences a sample, [B,S,N]. N is at most the run's input.length.
        Without a mask id 0 is padding, but of images, of tasks whose labels stand at positions
        (mqar, selective_copying) and with input.mask none: there all are tokens.
        """
        self._keep_tensors()
        if mask is None:
            zero_is_padding = self._native.zero_is_padding()
            mask = tokens != 0 if zero_is_padding else torch.ones_like(tokens, dtype=torch.bool)
        if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool:
            raise _lra.Error(f"mask should be a bool tensor [B,N], not {getattr(mask, 'dtype', type(mask).__name__)}")
        if tokens.dim() not in (2, 3):
            raise _lra.Error(f"tokens should be [B,N], or [B,S,N] of several sequences, not {list(tokens.shape)}")
        if tokens.dim() == 2:
            tokens, mask = tokens.unsqueeze(1), mask.unsqueeze(1)
        with _modules.interrupts_told():
            return self._native.forward(tokens, mask)

    def __copy__(self):
        raise _lra.Error("a run's model is one: open the run again, or take its state_dict()")

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __reduce__(self):
        raise TypeError("a run's model stays in its folder: keep the path, or its state_dict()")


class Run:
    """A run folder, opened: its configuration, result, metrics and model.

    path; config, result: dicts, as config.json and result.json have them (result is None while it
    trains). model: at the checkpoint that was asked for, of step `step`.
    """

    def __init__(self, path, data, checkpoint, device) -> None:
        self.path = os.path.abspath(path)
        data = os.path.abspath(data) if os.fspath(data) else ""
        self._model: TrainedModel | None = None
        if checkpoint is not None:
            with exclusive, _modules.float32_by_default(), _modules.interrupts_told():
                native = _lra.Run(self.path, data, checkpoint, str(device))
            self._model = TrainedModel(native)
            self._model.eval()
        config = self._read("config.json")
        if config is None:
            raise _lra.Error(f"{self.path} is not a run folder (no config.json)")
        self.config: dict[str, Any] = config
        self.result: dict[str, Any] | None = self._read("result.json")
        self._data = data or self.config["data"]["directory"]

    @property
    def model(self) -> TrainedModel:
        if self._model is None:
            raise _lra.UsageError(f"{self.path} was opened without a checkpoint: there is no model")
        return self._model

    @property
    def step(self) -> int:
        return self.model._native.step()

    def _read(self, name: str) -> Any:
        path = os.path.join(self.path, name)
        try:
            with open(path, encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise _lra.Error(f"{path} is damaged: {error}") from None

    @property
    def metrics(self) -> Any:
        """A row a logged step or evaluation: a pandas.DataFrame, or a list of dicts without pandas."""
        path = os.path.join(self.path, "metrics.jsonl")
        rows = []
        try:
            with open(path, encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    if line.endswith("\n"):  # else it is being written
                        rows.append(json.loads(line))
        except FileNotFoundError:
            raise _lra.Error(f"{path} is missing: the run has logged nothing yet, or lost it") from None
        except ValueError as error:
            raise _lra.Error(f"{path}, line {number}: {error}") from None
        return _frame(rows)

    def dataset(self, split: str = "test") -> Dataset:
        """A split of the data that it was trained on, read, cut, padded and hidden as by the run.

        "dev" is the split that chose the checkpoint: of a run with evaluation.dev test, test. "train"
        is that split alone, although such a run trains on the data's own dev, too.
        """
        settings = self.config["input"]
        if split == "dev":
            split = self.config["evaluation"].get("dev", "dev")
        made = Dataset(
            os.path.join(self._data, self.config["task"]),
            split,
            length=settings["length"],
            mask=settings["mask"],
            cut=settings.get("cut", 0),
            brackets=settings.get("brackets", "keep"),
        )
        wanted = self.config["data"].get("fingerprint", "")
        found = made._data.fingerprint()
        if wanted and found != wanted:
            raise _lra.Error(
                f"{self.path} is of other data (fingerprint {wanted[:8]}) than those in {self._data} "
                f"({found[:8]}); give with data= the folder that it was trained on, or a copy"
            )
        return made

    def evaluate(self, split: str = "test") -> dict[str, Any]:
        """`accuracy`, `correct`, `count`, `loss`, and `predictions`, a row a sample, or a label where
        they stand at positions.

        It seeds torch's global generators, and puts them back: calls of several threads wait for
        each other, and what other threads draw meanwhile is of its seed.
        """
        with exclusive, _modules.float32_by_default(), _modules.interrupts_told():
            correct, count, loss, predictions = self.model._native.evaluate(split)
        return {
            "accuracy": correct / count,
            "correct": correct,
            "count": count,
            "loss": loss,
            "predictions": _frame(_typed(csv.DictReader(io.StringIO(predictions)))),
        }

    def predict(self, samples) -> Any:
        """What the model says of samples that somebody wrote: a row a sample, `index`, `predicted`, `confidence`.

        A sample is a str (in UTF-8) or bytes: an expression of listops, a review of text, two
        papers of retrieval with a tab between them, else ids, "12 0 7". It is cut and padded as by
        the run. Raises lra.Error that names the line, from 1, where one is no sample of the task.
        """
        if isinstance(samples, (str, bytes)):
            raise TypeError("samples should be a list of str or bytes, not one alone")
        with exclusive, _modules.float32_by_default(), _modules.interrupts_told():
            rows = self.model._native.predict(list(samples))
        return _frame(_typed(csv.DictReader(io.StringIO(rows))))

    def __repr__(self) -> str:
        at = "no checkpoint" if self._model is None else f"step {self.step}"
        return f"<run {self.path}: {self.config['task']}, {at}>"


def load_run(
    path: str | os.PathLike,
    *,
    data: str | os.PathLike = "",
    checkpoint: str | None = "best",
    device: str | torch.device = "cpu",
) -> Run:
    """Opens a run folder of `lra train` at a checkpoint, "best" or "last".

    None opens it without a model or its data, as a run that diverged before it had a checkpoint.
    data: the folder of the prepared data, where it is no longer the run's own. Raises lra.Error
    where checkpoint, configuration and data do not belong together.
    """
    return Run(path, data, checkpoint, device)


def records(*paths: str | os.PathLike, kind: str = "runs") -> Any:
    """A row a record found below the paths: a pandas.DataFrame, or a list of dicts without pandas.

    kind: "runs" (the columns of runs.csv), "profiles" (memory and time), "fidelity" or "where"
    (the parts of a training step). Files that cannot be used are warned of.
    """
    headers, rows, bad = _lra.records([os.fspath(path) for path in paths], kind)
    for file in bad:
        warnings.warn(file, stacklevel=2)
    return _frame(_typed(dict(zip(headers, row)) for row in rows))


def _typed(rows) -> list[dict[str, Any]]:
    return [{key: _cell(key, text) for key, text in row.items()} for row in rows]


def _cell(column: str, text: str) -> Any:
    return text or None if column in _TEXTS else _value(text)


def _value(text: str) -> Any:
    """The number or truth that a cell holds, None where it is empty."""
    if text in _WORDS:
        return _WORDS[text]
    if not _NUMBER.fullmatch(text):
        return text
    return float(text) if set(text) & set(".eE") else int(text)


def _frame(rows: list[dict[str, Any]]) -> Any:
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)

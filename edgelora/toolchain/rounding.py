"""How the matrices of a model are rounded when it is packed for the native core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.model_source import ModelSource

if TYPE_CHECKING:  # the native core is not installed everywhere
    from edgelora_native.matrices import Matrix


REPORT_PATTERN = "quantisation[._]*"
"""Names of the files of `Rounding.report`."""


class Rounding(Protocol):
    """Chooses the kind of every matrix and rounds it.

    `write_native` asks product by product in the order of the file: the head, the embedding where
    it is not the head, then for each layer query with key and value, output, gate with up, down.
    """

    @property
    def name(self) -> str:
        """What `BaseModel.quantisation` says."""
        ...

    @property
    def bytes_per_weight(self) -> float:
        """Most bytes that a weight takes in the file."""
        ...

    def begin(self, source: ModelSource) -> None:
        """Works out what looks at the whole model, such as a budget, with progress of its own."""
        ...

    def matrices(self, source: ModelSource, names: Sequence[str]) -> list[Matrix]:
        """Returns the matrices of one product; `names` are Hugging Face names of `source`.

        One kernel multiplies all of them: of different kinds, all become that of the most bits.
        Raises ToolchainError for values that can not be packed.
        """
        ...

    def report(self) -> dict[str, str]:
        """Files to write beside the weights, name -> text, once all matrices were asked for."""
        ...


class PlainRounding:
    """Without calibration: 4 and 8 bits, and what the source has in such groups stays as it is."""

    name = "plain"
    bytes_per_weight = 34 / 32

    def begin(self, source: ModelSource) -> None:
        """Each matrix is rounded by itself."""

    def matrices(self, source: ModelSource, names: Sequence[str]) -> list[Matrix]:
        """See Rounding."""
        from edgelora.toolchain.plain_matrices import plain_matrix

        return [plain_matrix(name, source.tensors[name]) for name in names]

    def report(self) -> dict[str, str]:
        """Nothing is to be told."""
        return {}


class HalfPrecision:
    """Everything in bfloat16: what others are compared with."""

    name = "none"
    bytes_per_weight = 2.0

    def begin(self, source: ModelSource) -> None:
        """Each matrix is rounded by itself."""

    def matrices(self, source: ModelSource, names: Sequence[str]) -> list[Matrix]:
        """See Rounding."""
        from edgelora.toolchain.plain_matrices import half_matrix

        return [half_matrix(name, source.tensors[name]) for name in names]

    def report(self) -> dict[str, str]:
        """Nothing is to be told."""
        return {}


_ROUNDINGS: dict[str, type[PlainRounding] | type[HalfPrecision]] = {
    one.name: one for one in (PlainRounding, HalfPrecision)
}
QUANTISATIONS = tuple(_ROUNDINGS)
"""Names of the roundings that need nothing but the source."""


def make_rounding(name: str) -> Rounding:
    """Returns one of `QUANTISATIONS`. Raises ToolchainError for any other."""
    if name not in _ROUNDINGS:
        raise ToolchainError(f"quant must be one of {', '.join(_ROUNDINGS)}")
    return _ROUNDINGS[name]()

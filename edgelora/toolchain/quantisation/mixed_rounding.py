"""Calibrated rounding in the words of `edgelora.toolchain.rounding`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.model_source import ModelSource
from edgelora.toolchain.quantisation.options import QuantisationOptions
from services.chassis.extras import install_command

if TYPE_CHECKING:  # neither the native core nor torch is installed everywhere
    from edgelora_native.matrices import Matrix

    from edgelora.toolchain.quantisation.quantise import QuantisedModel


class MixedRounding:
    """Rounds the whole model when it begins."""

    name = "mixed"
    bytes_per_weight = 34 / 32

    def __init__(self, options: QuantisationOptions) -> None:
        """Raises ToolchainError when options can not work, or torch is not installed."""
        options.check()
        if find_spec("torch") is None:
            raise ToolchainError(
                f"--quant mixed needs torch: run `{install_command('prepare,torch')}` in the "
                "source tree, or use --quant plain"
            )
        self._options = options
        self._model: QuantisedModel | None = None

    def begin(self, source: ModelSource) -> None:
        """See Rounding."""
        from edgelora.toolchain.quantisation.quantise import quantise

        self._model = quantise(source, self._options)

    def matrices(self, source: ModelSource, names: Sequence[str]) -> list[Matrix]:
        """See Rounding."""
        assert self._model is not None
        return [self._model.matrices[name] for name in names]

    def report(self) -> dict[str, str]:
        """See Rounding."""
        from edgelora.toolchain.quantisation.report import report_files

        return {} if self._model is None else report_files(self._model.report)

"""How much a grammar may take: llguidance's own limits, in its units."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llguidance import LLParserLimits


def parser_limits() -> LLParserLimits:
    """For compiling a grammar and for each step of it.

    A step that uses all it may takes about 4 ms; an ordinary one takes 5 to 100 us.
    """
    from llguidance import LLParserLimits

    return LLParserLimits(
        max_items_in_row=1_000,
        initial_lexer_fuel=500_000,
        step_lexer_fuel=50_000,
        step_max_items=10_000,
        max_lexer_states=20_000,
        max_grammar_size=100_000,
        # Its messages hold parts of the grammar, which are nobody's to read.
        verbose_errors=False,
    )

"""Can everybody tell the series of a figure apart? The palette's distances under simulated colour blindness.

About one man in twelve lacks or has shifted one of the three kinds of cones: protanopia (no long, "red" ones),
deuteranopia (no medium, "green" ones), tritanopia (no short, "blue" ones, rare). A simulation shows a colour as such an
eye sees it; the distance of two simulated colours is CIEDE2000, in which about 2 is just noticed side by side.

Series also differ in dashes and markers (`labsim.lab.style`), so hue never stands alone; the minimum is about three
times what is just noticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from ..style import LOOKS

DEFICIENCIES = ("protan", "deutan", "tritan")
MINIMUM = 7.5  # CIEDE2000


def seen(colour: str, deficiency: str) -> str:
    """The #rrggbb that an eye without this kind of cone cannot tell from `colour` (Brettel, Vienot and Mollon 1997)."""
    from coloraide import Color

    return Color(colour).filter(deficiency, method="brettel").convert("srgb").clip().to_string(hex=True)


def distance(one: str, other: str) -> float:
    """CIEDE2000 of two colours."""
    from coloraide import Color

    return Color(one).delta_e(other, method="2000")


def too_close(colours: Sequence[str] | None = None, minimum: float = MINIMUM) -> list[str]:
    """Pairs that come closer than `minimum` for some eye, one line each. Default: the palette."""
    if colours is None:
        colours = [look.colour for look in LOOKS]
    found = []
    for one, other in combinations(colours, 2):
        for deficiency in (None, *DEFICIENCIES):
            pair = [seen(colour, deficiency) if deficiency else colour for colour in (one, other)]
            apart = distance(*pair)
            if apart < minimum:
                found.append(
                    f"{one} and {other} are {apart:.1f} apart for {deficiency or 'full'} sight; least: {minimum}"
                )
    return found

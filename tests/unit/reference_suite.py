"""The suite of wires, filled in for the reference provider or for one with a bug in it."""

from __future__ import annotations

from pathlib import Path

from reference_http import Limits
from reference_provider import ReferenceProvider

from gnomon.contracts.provider import Provider
from gnomon.testing import Wire, WireContract, WireLimits

FOLDER = Path(__file__).resolve().parents[1] / "wire" / "reference"


class ReferenceSuite(WireContract):
    __test__ = False  # whoever imports it does not want to run it

    wire = Wire(FOLDER)

    def __init__(self, make: type[ReferenceProvider] = ReferenceProvider) -> None:
        self.make = make

    def connect(self, url: str, limits: WireLimits) -> Provider:
        chosen = {name: getattr(limits, name) for name in limits.__struct_fields__}
        given = {name: value for name, value in chosen.items() if value is not None}
        return self.make(key=self.key, base_url=url, limits=Limits(**given))

"""An answer of a type of your own, checked; and what there is of it while it comes."""

import asyncio
from dataclasses import dataclass

from gnomon import Agent
from gnomon.testing import ScriptedProvider, says


@dataclass
class Invoice:
    number: str
    total: float
    lines: list[str]


# In place of a real model: its first answer does not fit, so it is told what is wrong and asked again.
model = ScriptedProvider(
    [
        says('{"number": "A-7", "total": "a lot", "lines": []}'),
        says('{"number": "A-7", "total": 12.5, "lines": ["pens", "paper"]}').expecting(text="total"),
    ]
)


async def main() -> None:
    agent = Agent(model, output=Invoice)
    async with agent.stream("What does this invoice say?") as run:
        async for partial in run.partials():
            print("so far:", partial)
    invoice = run.turn.output  # a type checker knows that this is an Invoice
    print(f"{invoice.number}: {invoice.total} for {', '.join(invoice.lines)}")
    assert invoice == Invoice("A-7", 12.5, ["pens", "paper"])


asyncio.run(main())

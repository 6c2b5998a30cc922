"""A tool that changes something: its start is written down first, and its key stays the same."""

import asyncio
from dataclasses import dataclass, field

from gnomon import Agent, Context, ToolFailed, tool


@dataclass
class Bank:
    balance: int = 100
    paid: dict[str, int] = field(default_factory=dict)


@tool(idempotent=True)
def pay(context: Context[Bank], to: str, amount: int) -> str:
    """Pay somebody.

    Args:
        to: who gets the money
        amount: how much, in euros
    """
    bank = context.deps
    if amount > bank.balance:
        raise ToolFailed(f"there are only {bank.balance} euros left")
    if context.idempotency_key not in bank.paid:  # the same call again, after a crash
        bank.balance -= amount
        bank.paid[context.idempotency_key] = amount
    return f"paid {amount} euros to {to}; {bank.balance} are left"


async def main() -> None:
    bank = Bank()
    turn = await Agent("demo", tools=[pay], deps=bank).run('Pay 20 euros to "Grace"')
    print(turn.text)
    assert bank.balance == 80


asyncio.run(main())

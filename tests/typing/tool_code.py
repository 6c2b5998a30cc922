"""Tools as a user writes them, as a type checker sees them. This file is checked, and never run."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, assert_type

from pydantic import BaseModel, Field

from gnomon import Image, Tool, ToolContext, ToolFailed, ToolResult, tool
from gnomon.contracts.tool import (
    Context,
    OnUnknown,
    SupportsEffects,
    SupportsLookup,
    SupportsOutputCap,
    SupportsProgress,
    SupportsTimeout,
    SupportsUnknown,
)
from gnomon.errors import AskUser
from gnomon.tools.function import FunctionTool, as_tool
from gnomon.types.events import ToolProgress


@dataclass
class Shop:
    stock: int


class Line(BaseModel):
    item: str = Field(max_length=20)
    count: int = 1


# --- the context ------------------------------------------------------------


@tool
def take(count: int, ctx: Context[Shop]) -> int:
    """Take something from the shelf."""
    assert_type(ctx.deps, Shop)
    assert_type(ctx.idempotency_key, str)
    if count > ctx.deps.stock:
        raise AskUser("Order more?", options=("yes", "no"))
    return ctx.deps.stock - count


@tool
def maybe(ctx: Context[Shop] | None = None) -> None:
    """Do it, or not."""


@tool
def bare(ctx: ToolContext) -> str:
    """Without a word about its deps."""
    assert_type(ctx, ToolContext[object])
    return ctx.call_id


assert_type(take(2, ctx=Context(call_id="c", deps=Shop(3))), int)
assert_type(take(2, Context(call_id="c", deps=Shop(3))), int)
assert_type(Context(call_id="c", deps=Shop(3)), ToolContext[Shop])
assert_type(Context(call_id="c"), ToolContext[None])
assert_type(bare(ToolContext(call_id="c")), str)
maybe(None)
take(2, ctx=Context(call_id="c", deps="a shop"))  # pyright: ignore[reportArgumentType] - not a Shop
take(2)  # pyright: ignore[reportCallIssue] - the context is missing


# --- arguments and results --------------------------------------------------


@tool(read_only=True, timeout_s=5, max_output_chars=2_000, on_unknown="tell")
async def order(
    lines: list[Line], note: Annotated[str, "for the shop"] = "", speed: Literal["slow", "fast"] = "slow"
) -> list[str | Image]:
    """Order something."""
    return [line.item for line in lines]


async def call_it_as_before() -> None:
    assert_type(await order([Line(item="tea")], speed="fast"), list[str | Image])
    await order([], speed="warp")  # pyright: ignore[reportArgumentType] - there is no such speed


# --- tools that report ------------------------------------------------------


@tool
async def download(url: str) -> AsyncIterator[str]:
    """Download a page."""
    yield "connecting"
    yield url


@tool
def count(upto: int) -> Iterator[int]:
    """Count."""
    yield from range(upto)


async def read_it_as_before() -> None:
    async for line in download("https://example.org"):
        assert_type(line, str)
    for number in count(3):
        assert_type(number, int)


async def call_it_as_an_engine_does() -> None:
    context = Context(call_id="c", deps=Shop(3))
    assert_type(await take.execute("{}", context), ToolResult)
    assert_type(await take.execute("{}", Context(call_id="c")), ToolResult)


async def watch(given: Tool, context: ToolContext) -> ToolResult:
    if isinstance(given, SupportsProgress):
        async for event in given.execute_stream("{}", context):
            assert_type(event, ToolProgress | ToolResult)
    return await given.execute("{}", context)


# --- what became of a call --------------------------------------------------


def find(key: str, arguments: dict[str, object]) -> str | None:
    return f"{key} {arguments}"


async def find_later(key: str) -> ToolResult | None:
    raise ToolFailed(f"nobody knows {key}")


@tool(lookup=find)
def pay(amount: int) -> str:
    """Pay."""
    return str(amount)


@tool(lookup=find_later, idempotent=True)
async def give(amount: int) -> str:
    """Give."""
    return str(amount)


def find_nothing() -> None: ...


tool(lookup=find_nothing)  # pyright: ignore[reportArgumentType] - it does not take the key
tool(on_unknown="again")  # pyright: ignore[reportArgumentType] - nobody is told of it
tool(retries=3)  # pyright: ignore[reportCallIssue] - there is no such option

made: FunctionTool[[str, dict[str, object]], str | None] = as_tool(find, name="find", read_only=True)
assert_type(made.on_unknown, OnUnknown)
assert_type(made.max_output_chars, int | None)
assert_type(made("k", {}), str | None)


def ask(given: Tool) -> None:
    if isinstance(given, SupportsOutputCap):
        assert_type(given.max_output_chars, int | None)
    if isinstance(given, SupportsUnknown):
        assert_type(given.on_unknown, OnUnknown)


def offer(
    tools: list[Tool],
    capped: SupportsOutputCap,
    asked: SupportsUnknown,
    timed: SupportsTimeout,
    effects: SupportsEffects,
) -> None: ...


offer([take, order, download, count, pay, give], take, take, take, take)


class Looked:
    """A tool of one's own that can be asked."""

    async def lookup(self, key: str, arguments: str) -> ToolResult | None:
        return None


by_hand: SupportsLookup = Looked()

"""Every kind of tool keeps its word: one small class each."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypedDict

import msgspec
import pydantic

from gnomon import Text, ToolFailed, ToolResult, tool
from gnomon.contracts.tool import Context, Tool, ToolContext
from gnomon.engine.capping import ReadOutput
from gnomon.errors import InvalidArguments
from gnomon.testing import ToolContract
from gnomon.tools.calculator import calculate
from gnomon.tools.clock import now
from gnomon.types.events import ToolProgress


class Shop:
    """Where the effects are, as another service would have them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.orders: list[str] = []
        self.by_key: dict[str, str] = {}
        self.steps = 0
        self.answers = True

    def order(self, item: str, count: int = 1, key: str = "") -> str:
        """Puts an order down, once for a key where there is one."""
        if item == "none":
            raise ToolFailed("there is none left")
        with self._lock:
            if key and key in self.by_key:
                return self.by_key[key]
            self.orders.append(item)
            self.by_key[key] = f"{count} {item}"
            return f"{count} {item}"

    def find(self, key: str) -> str | None:
        if not self.answers:
            raise ConnectionError("the shop does not answer")
        return self.by_key.get(key)

    def step(self) -> None:
        with self._lock:
            self.steps += 1


class ShopSuite(ToolContract):
    """What the tools of the shop have in common."""

    __test__ = False

    arguments: ClassVar[str] = '{"item": "tea", "count": 2}'
    answer: ClassVar[str | None] = "2 tea"
    invalid = {
        "{}": "item",
        '{"item": 5}': "item",
        '{"item": null}': "item",
        '{"item": "tea", "count": "two"}': "count",
        '{"item": "tea", "count": 1.5}': "count",
        '{"item": "tea", "colour": "green"}': "colour",
    }
    failing = '{"item": "none"}'
    slow = '{"item": "slow"}'

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Tool]:
        self.shop = Shop()
        yield self.made()

    def made(self) -> Tool:
        raise NotImplementedError

    def effects(self) -> int | None:
        return len(self.shop.orders)


def wait(item: str) -> None:
    if item == "slow":
        time.sleep(1.2)


async def linger(item: str) -> None:
    if item == "slow":
        await asyncio.sleep(1.2)


# --- functions --------------------------------------------------------------------


class TestPlainFunction(ShopSuite):
    __test__ = True

    def made(self) -> Tool:
        @tool
        def order(item: str, count: int = 1) -> str:
            """Order something."""
            wait(item)
            return self.shop.order(item, count)

        return order


class TestAsyncFunction(ShopSuite):
    __test__ = True

    def made(self) -> Tool:
        @tool
        async def order(item: str, count: int = 1) -> str:
            """Order something."""
            await linger(item)
            return self.shop.order(item, count)

        return order


class Prices:
    currency = "CHF"


class TestContextWithDeps(ShopSuite):
    __test__ = True
    deps = Prices()
    answer = "2 tea for CHF"

    def made(self) -> Tool:
        @tool
        def order(ctx: Context[Prices], item: str, count: int = 1) -> str:
            """Order something."""
            wait(item)
            return f"{self.shop.order(item, count)} for {ctx.deps.currency}"

        return order


class TestMethod(ShopSuite):
    __test__ = True

    def made(self) -> Tool:
        shop = self.shop

        class Counter:
            @tool
            async def order(self, item: str, count: int = 1) -> str:
                """Order something."""
                await linger(item)
                return shop.order(item, count)

        return Counter().order


# --- arguments of the user's own types -----------------------------------------------


class PydanticOrder(pydantic.BaseModel):
    item: str
    count: int = pydantic.Field(default=1, ge=1)


@dataclass
class DataclassOrder:
    item: str
    count: Annotated[int, msgspec.Meta(ge=1)] = 1


class _Wanted(TypedDict):
    item: str


class DictOrder(_Wanted, total=False):
    count: Annotated[int, msgspec.Meta(ge=1)]


class StructOrder(msgspec.Struct):
    item: str
    count: Annotated[int, msgspec.Meta(ge=1)] = 1


class NestedSuite(ShopSuite):
    """One argument, which has parts of its own."""

    arguments = '{"wish": {"item": "tea", "count": 2}}'
    invalid = {
        "{}": "wish",
        '{"wish": "tea"}': "wish",
        '{"wish": {}}': "item",
        '{"wish": {"item": 5}}': "item",
        '{"wish": {"item": "tea", "count": 0}}': "count",
        '{"wish": {"item": "tea", "count": "two"}}': "count",
    }
    failing = '{"wish": {"item": "none"}}'
    slow = '{"wish": {"item": "slow"}}'


class TestPydanticArgument(NestedSuite):
    __test__ = True

    def made(self) -> Tool:
        @tool
        def order(wish: PydanticOrder) -> str:
            """Order something."""
            wait(wish.item)
            return self.shop.order(wish.item, wish.count)

        return order


class TestDataclassArgument(NestedSuite):
    __test__ = True

    def made(self) -> Tool:
        @tool
        def order(wish: DataclassOrder) -> str:
            """Order something."""
            wait(wish.item)
            return self.shop.order(wish.item, wish.count)

        return order


class TestTypedDictArgument(NestedSuite):
    __test__ = True

    def made(self) -> Tool:
        @tool
        async def order(wish: DictOrder) -> str:
            """Order something."""
            await linger(wish["item"])
            return self.shop.order(wish["item"], wish.get("count", 1))

        return order


class TestStructArgument(NestedSuite):
    __test__ = True

    def made(self) -> Tool:
        @tool
        async def order(wish: StructOrder) -> str:
            """Order something."""
            await linger(wish.item)
            return self.shop.order(wish.item, wish.count)

        return order


class TestListOfPydantic(ShopSuite):
    """Several models in a list, beside a plain argument."""

    __test__ = True
    arguments = '{"wishes": [{"item": "tea"}, {"item": "milk", "count": 2}], "when": "now"}'
    answer = '["1 tea","2 milk"]'
    invalid = {
        '{"wishes": [{"item": "tea"}], "when": "soon"}': "when",
        '{"wishes": [{"item": "tea"}, {"count": 2}], "when": "now"}': "item",
        '{"wishes": [{"item": "tea", "count": 0}], "when": "now"}': "count",
        '{"wishes": {"item": "tea"}, "when": "now"}': "wishes",
    }
    failing = '{"wishes": [{"item": "none"}], "when": "now"}'
    slow = '{"wishes": [{"item": "slow"}], "when": "now"}'

    def made(self) -> Tool:
        @tool
        def order(wishes: list[PydanticOrder], when: Literal["now", "later"]) -> list[str]:
            """Order several things."""
            for wish in wishes:
                wait(wish.item)
            return [self.shop.order(wish.item, wish.count) for wish in wishes]

        return order


# --- tools that report --------------------------------------------------------------


class StreamSuite(ShopSuite):
    def steps(self) -> int | None:
        return self.shop.steps


class TestAsyncGenerator(StreamSuite):
    __test__ = True

    def made(self) -> Tool:
        @tool
        async def order(item: str, count: int = 1) -> AsyncGenerator[str, None]:
            """Order something, step by step."""
            for number in range(3):
                self.shop.step()
                yield f"step {number}"
                await linger(item)
                await asyncio.sleep(0)
            yield self.shop.order(item, count)

        return order


class TestGenerator(StreamSuite):
    __test__ = True

    def made(self) -> Tool:
        @tool
        def order(item: str, count: int = 1) -> Generator[str, None, str]:
            """Order something, step by step."""
            for number in range(3):
                self.shop.step()
                yield f"step {number}"
                wait(item)
            return self.shop.order(item, count)

        return order


class TestGeneratorWithoutReturn(StreamSuite):
    """What it yields last is its result."""

    __test__ = True

    def made(self) -> Tool:
        @tool
        def order(ctx: Context[None], item: str, count: int = 1) -> Generator[str, None, None]:
            """Order something, step by step."""
            for number in range(3):
                self.shop.step()
                yield f"step {number} of {ctx.call_id}"
                wait(item)
            yield self.shop.order(item, count)

        return order


# --- tools that may be called again ---------------------------------------------------


class TestIdempotent(ShopSuite):
    __test__ = True

    def made(self) -> Tool:
        @tool(idempotent=True)
        async def order(ctx: ToolContext, item: str, count: int = 1) -> str:
            """Order something, once."""
            await linger(item)
            return self.shop.order(item, count, ctx.idempotency_key)

        return order


class TestIdempotentInAThread(ShopSuite):
    __test__ = True

    def made(self) -> Tool:
        @tool(idempotent=True, timeout_s=None, max_output_chars=None, on_unknown="tell")
        def order(item: str, count: int = 1, ctx: Context[object] | None = None) -> str:
            """Order something, once."""
            assert ctx is not None
            wait(item)
            return self.shop.order(item, count, ctx.idempotency_key)

        return order


class TestLookup(ShopSuite):
    __test__ = True

    def made(self) -> Tool:
        async def found(key: str, arguments: dict[str, object]) -> str | None:
            await asyncio.sleep(0)
            return self.shop.find(key)

        @tool(lookup=found, timeout_s=5.0, max_output_chars=1_000)
        async def order(ctx: ToolContext, item: str, count: int = 1) -> str:
            """Order something."""
            await linger(item)
            await asyncio.sleep(0)
            return self.shop.order(item, count, ctx.idempotency_key)

        return order

    def blind(self) -> bool:
        self.shop.answers = False
        return True


class TestLookupInAThread(ShopSuite):
    __test__ = True

    def made(self) -> Tool:
        def found(key: str, arguments: dict[str, object]) -> str | None:
            return self.shop.find(key)

        @tool(lookup=found, idempotent=True)
        def order(ctx: ToolContext, item: str, count: int = 1) -> str:
            """Order something."""
            wait(item)
            return self.shop.order(item, count, ctx.idempotency_key)

        return order

    def blind(self) -> bool:
        self.shop.answers = False
        return True


# --- tools that come with us, and one by hand ------------------------------------------


class TestCalculate(ToolContract):
    arguments = '{"expression": "6*7"}'
    answer = "42"
    invalid = {"{}": "expression", '{"expression": 42}': "expression"}
    failing = '{"expression": "six times seven"}'

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Tool]:
        yield calculate


class TestNow(ToolContract):
    arguments = '{"timezone": "Europe/Paris"}'
    repeatable = False
    invalid = {'{"timezone": 1}': "timezone", '{"zone": "UTC"}': "zone"}
    failing = '{"timezone": "Atlantis"}'

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Tool]:
        yield now


class TestReadOutput(ToolContract):
    arguments = '{"call_id": "call_7", "offset": 10, "length": 5}'
    invalid = {
        "{}": "call_id",
        '{"call_id": 7}': "call_id",
        '{"call_id": "call_7", "offset": "ten"}': "offset",
        '{"call_id": "call_7", "page": 1}': "page",
    }
    failing = '{"call_id": "call_8"}'

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Tool]:
        async def find(call_id: str) -> str | None:
            await asyncio.sleep(0)
            return "0123456789abcdefghij" if call_id == "call_7" else None

        yield ReadOutput(find)


class ByHand:
    """The whole protocol, and every power, without `@tool`."""

    name = "order"
    description = "Order something."
    parameters: ClassVar[dict[str, object]] = {
        "type": "object",
        "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["item"],
        "additionalProperties": False,
    }
    read_only = False
    destructive = False
    idempotent = True
    timeout_s: float | None = None
    max_output_chars: int | None = None
    on_unknown: Literal["ask", "tell"] = "ask"

    class Order(msgspec.Struct, forbid_unknown_fields=True):
        item: str
        count: int = 1

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        async for step in self.execute_stream(arguments, context):
            if isinstance(step, ToolResult):
                return step
        raise AssertionError("a stream without a result")

    async def execute_stream(
        self, arguments: str, context: ToolContext
    ) -> AsyncGenerator[ToolProgress | ToolResult, None]:
        order = self._read(arguments)
        self._shop.step()
        yield ToolProgress(context.turn_id, context.call_id, (Text("asking the shop"),))
        await linger(order.item)
        await asyncio.sleep(0)
        said = self._shop.order(order.item, order.count, context.idempotency_key)
        yield ToolResult(context.call_id, self.name, (Text(said),))

    async def lookup(self, key: str, arguments: str) -> ToolResult | None:
        said = self._shop.find(key)
        return None if said is None else ToolResult("", self.name, (Text(said),))

    def _read(self, arguments: str) -> Order:
        try:
            return msgspec.json.decode(arguments, type=self.Order)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InvalidArguments(str(error)[:300]) from error


class TestByHand(StreamSuite):
    __test__ = True

    def made(self) -> Tool:
        return ByHand(self.shop)

    def blind(self) -> bool:
        self.shop.answers = False
        return True


class TestReadOnly(ShopSuite):
    """What is looked up may be looked up side by side."""

    __test__ = True

    def made(self) -> Tool:
        @tool(read_only=True)
        def price(item: str, count: int = 1) -> str:
            """What something would cost."""
            wait(item)
            if item == "none":
                raise ToolFailed("there is none left")
            return f"{count} {item}"

        return price

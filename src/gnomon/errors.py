"""Every error of Gnomon.

    GnomonError               .code is a stable slug, .retryable a fact, .hint a sentence
    ├── ConfigError           the programmer acts
    │   ├── UnknownName         no back end of that name
    │   ├── MissingExtra        the back end's driver is not installed
    │   ├── MissingKey          no API key
    │   ├── InvalidInput        a file, a pipe or an argument that cannot be used
    │   ├── NotTrusted          a project file sets what only a trusted folder may
    │   └── DefinitionChanged   a turn began under another definition of its agent
    ├── ProviderError         .vendor .status .request_id .retry_after .spent
    │   ├── Unauthorized
    │   ├── BadRequest
    │   │   └── ModelNotFound
    │   ├── Refused
    │   ├── BadReply            the answer cannot be read
    │   ├── ContextTooLong      the engine compacts, once
    │   ├── RateLimited         retryable, .retry_after
    │   ├── Overloaded          retryable
    │   ├── Unreachable         retryable, unless it is the certificate
    │   ├── StreamCut           retryable: the bytes ended before the answer did
    │   └── ProviderTimeout     retryable
    │       ├── ConnectTimeout
    │       ├── FirstByteTimeout
    │       ├── IdleTimeout
    │       └── TotalTimeout
    ├── ToolError             the model reads it
    │   ├── InvalidArguments
    │   ├── ToolFailed
    │   ├── ToolDenied
    │   ├── ToolTimeout
    │   └── AskUser             no failure: the call waits for a person's answer
    ├── StorageError
    │   ├── Conflict
    │   │   └── Superseded       another runner has the session now
    │   ├── NotFound
    │   ├── Unavailable         retryable
    │   ├── AccessDenied        the password or a permission
    │   ├── WrongSchema         no tables yet, older ones, or newer than this code
    │   ├── StorageFull         no room: nothing was stored
    │   └── Damaged             what is stored cannot be read
    ├── SandboxError
    │   └── SandboxLost
    ├── GuardrailTripped      says which, and why
    ├── HookFailed            says which: one that stands around a step broke it
    ├── ApprovalRefused       an answer that does not count: too late, twice, or for something else
    ├── BudgetExceeded        rounds, tokens, money or time
    ├── InvalidOutput         the model's answer does not fit the output type
    ├── TurnUnfinished        .turn_id; a turn waits for a person, so it has no result yet
    └── ContractError         .rule; a back end broke its promise; always a bug

The first branch answers *who acts on it*. Absence is `None`, a timed-out
command is a result, and cancellation is `CancelledError` passing through:
none of these is an error of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnomon._scrub import scrub as scrub

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gnomon.types.requests import Spent

__all__ = [
    "GnomonError",
    "ConfigError",
    "UnknownName",
    "MissingExtra",
    "MissingKey",
    "InvalidInput",
    "NotTrusted",
    "DefinitionChanged",
    "ProviderError",
    "Unauthorized",
    "BadRequest",
    "ModelNotFound",
    "Refused",
    "BadReply",
    "ContextTooLong",
    "RateLimited",
    "Overloaded",
    "Unreachable",
    "StreamCut",
    "ProviderTimeout",
    "ConnectTimeout",
    "FirstByteTimeout",
    "IdleTimeout",
    "TotalTimeout",
    "ToolError",
    "InvalidArguments",
    "ToolFailed",
    "ToolDenied",
    "ToolTimeout",
    "AskUser",
    "StorageError",
    "Conflict",
    "Superseded",
    "NotFound",
    "Unavailable",
    "AccessDenied",
    "WrongSchema",
    "StorageFull",
    "Damaged",
    "SandboxError",
    "SandboxLost",
    "GuardrailTripped",
    "HookFailed",
    "ApprovalRefused",
    "BudgetExceeded",
    "InvalidOutput",
    "TurnUnfinished",
    "ContractError",
    "scrub",
]


class GnomonError(Exception):
    """The root: catch this to catch everything Gnomon raises on purpose."""

    code: str = "error"
    retryable: bool = False
    hint: str | None = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = scrub(message)
        if hint is not None:
            self.hint = scrub(hint)
        super().__init__(self.message)

    @property
    def summary(self) -> str:
        """What happened, without what to do about it."""
        return self.message

    def __str__(self) -> str:
        return f"{self.summary} ({self.hint})" if self.hint else self.summary

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel between processes; their keyword-only facts go along.
        return _rebuilt, (type(self), self.args), self.__dict__


def _rebuilt(kind: type[GnomonError], args: tuple[object, ...]) -> GnomonError:
    return kind.__new__(kind, *args)


class ConfigError(GnomonError):
    """Something the programmer or the user wrote cannot be used as it is."""

    code = "config"


class UnknownName(ConfigError):
    """There is no back end of that name."""

    code = "unknown_name"


class MissingExtra(ConfigError):
    """The back end's driver is not installed; the hint has the install line."""

    code = "missing_extra"


class MissingKey(ConfigError):
    """No API key was found."""

    code = "missing_key"


class InvalidInput(ConfigError):
    """A file, a pipe, a line or an argument that cannot be used."""

    code = "invalid_input"


class NotTrusted(ConfigError):
    """A project file sets what only a trusted folder may set."""

    code = "not_trusted"


class DefinitionChanged(ConfigError):
    """A turn began under another definition of its agent, and the agent's rule is not to go on."""

    code = "definition_changed"


class ProviderError(GnomonError):
    """A model service failed, or refused.

    `spent` is what was used all the same: one `Spent` for each attempt that says so. A provider that
    falls back on others sets it, for what it has not said by an `AttemptDiscarded`.
    """

    code = "provider"
    spent: tuple[Spent, ...] = ()

    def __init__(
        self,
        message: str,
        *,
        vendor: str | None = None,
        status: int | None = None,
        vendor_code: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        retryable: bool | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        # What comes out of a reply may echo what was sent.
        self.vendor = vendor and scrub(vendor)
        self.status = status
        self.vendor_code = vendor_code and scrub(vendor_code)
        self.request_id = request_id and scrub(request_id)
        self.retry_after = retry_after
        if retryable is not None:
            self.retryable = retryable

    @property
    def summary(self) -> str:
        code = self.vendor_code if self.vendor_code != str(self.status) else None  # some repeat the status
        facts = [f"status {self.status}" if self.status else "", code or ""]
        facts.append(f"request {self.request_id}" if self.request_id else "")
        where = f"{self.vendor}: " if self.vendor else ""
        known = ", ".join(fact for fact in facts if fact)
        return f"{where}{self.message}" + (f" [{known}]" if known else "")


class Unauthorized(ProviderError):
    """The key was refused, or does not allow this."""

    code = "unauthorized"


class BadRequest(ProviderError):
    """The service did not take the request."""

    code = "bad_request"


class ModelNotFound(BadRequest):
    """The service has no model of that name."""

    code = "model_not_found"


class Refused(ProviderError):
    """The service will not answer this."""

    code = "refused"


class BadReply(ProviderError):
    """The service's answer cannot be read: a web page, a redirect, JSON that is none."""

    code = "bad_reply"


class ContextTooLong(ProviderError):
    """The conversation does not fit into the model's window."""

    code = "context_too_long"


class RateLimited(ProviderError):
    """Too many requests or tokens; `retry_after` says when to come back, if the service does."""

    code = "rate_limited"
    retryable = True


class Overloaded(ProviderError):
    """The service is down or busy."""

    code = "overloaded"
    retryable = True


class Unreachable(ProviderError):
    """No connection: no such host, nobody there, or a certificate that does not hold."""

    code = "unreachable"
    retryable = True


class StreamCut(ProviderError):
    """The bytes ended before the answer did."""

    code = "stream_cut"
    retryable = True


class ProviderTimeout(ProviderError):
    """The service took too long."""

    code = "timeout"
    retryable = True


class ConnectTimeout(ProviderTimeout):
    """No connection within the limit."""

    code = "connect_timeout"


class FirstByteTimeout(ProviderTimeout):
    """Connected, and no answer began within the limit."""

    code = "first_byte_timeout"


class IdleTimeout(ProviderTimeout):
    """The answer began, and then fell silent."""

    code = "idle_timeout"


class TotalTimeout(ProviderTimeout):
    """The answer as a whole took too long."""

    code = "total_timeout"


class ToolError(GnomonError):
    """The model reads the message and may try another way."""

    code = "tool"


class InvalidArguments(ToolError):
    """The arguments do not fit the tool's schema."""

    code = "invalid_arguments"


class ToolFailed(ToolError):
    """The tool could not do it; raise this in a tool to say why."""

    code = "tool_failed"


class ToolDenied(ToolError):
    """The call was not allowed."""

    code = "tool_denied"


class ToolTimeout(ToolError):
    """The tool did not finish within its limit."""

    code = "tool_timeout"


class AskUser(ToolError):
    """Raise this in a tool to ask a person: the turn is suspended, and the answer becomes the call's result.

    The tool is not run again, so raise it before anything is changed. With `options` the answer has to be one
    of these, or with `multiple` one or several of them.
    """

    code = "ask_user"

    def __init__(
        self,
        question: str,
        *,
        options: Sequence[str] = (),
        multiple: bool = False,
        hint: str | None = None,
    ) -> None:
        super().__init__(question, hint=hint)
        self.options = tuple(options)
        self.multiple = multiple


class StorageError(GnomonError):
    """A store failed, or refused."""

    code = "storage"


class Conflict(StorageError):
    """It is there already, or somebody else has changed it."""

    code = "conflict"


class Superseded(Conflict):
    """Another runner has claimed the session: this one stops, without doing anything more."""

    code = "superseded"


class NotFound(StorageError):
    """It is not there."""

    code = "not_found"


class Unavailable(StorageError):
    """The store cannot be reached; nothing was reported stored that is not."""

    code = "unavailable"
    retryable = True


class AccessDenied(StorageError):
    """The store does not let us in, or not that far: a password, a permission, a read-only file."""

    code = "access_denied"


class WrongSchema(StorageError):
    """The store has no tables yet, older ones, or newer ones than this code knows; the hint says what now."""

    code = "wrong_schema"


class StorageFull(StorageError):
    """There is no room; what could not be stored was not stored in part either."""

    code = "storage_full"


class Damaged(StorageError):
    """What is stored cannot be read: a damaged file, or another program's."""

    code = "damaged"


class SandboxError(GnomonError):
    """A sandbox failed."""

    code = "sandbox"


class SandboxLost(SandboxError):
    """The sandbox ended under the command."""

    code = "sandbox_lost"


class GuardrailTripped(GnomonError):
    """A guardrail did not let something pass; the message says which, and why."""

    code = "guardrail_tripped"


class HookFailed(GnomonError):
    """A hook that stands around a step broke it, and not the step itself; the message says which."""

    code = "hook_failed"


class ApprovalRefused(GnomonError):
    """An answer to a request for leave, or to a question, does not count: it came too late, twice, or for
    something else."""

    code = "approval_refused"


class BudgetExceeded(GnomonError):
    """A limit on rounds, tokens, money or time does not allow it."""

    code = "budget_exceeded"


class InvalidOutput(GnomonError):
    """The model's answer does not fit the output type, also after it was told so."""

    code = "invalid_output"


class TurnUnfinished(GnomonError):
    """A turn waits for a person, so it has no result yet; the message says for what."""

    code = "turn_unfinished"

    def __init__(self, message: str, *, turn_id: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.turn_id = turn_id


class ContractError(GnomonError):
    """A back end broke its promise; `rule` names which one. Always a bug."""

    code = "contract"

    def __init__(self, message: str, *, rule: str, hint: str | None = None) -> None:
        super().__init__(f"{message} [rule {rule}]", hint=hint)
        self.rule = rule

"""Every error of Gnomon.

    GnomonError               .code is a stable slug, .retryable a fact, .hint a sentence
    ├── ConfigError           the programmer acts
    │   ├── UnknownName         no back end of that name
    │   ├── MissingExtra        the back end's driver is not installed
    │   ├── MissingKey          no API key
    │   ├── InvalidInput        a file, a pipe or an argument that cannot be used
    │   └── NotTrusted          a project file sets what only a trusted folder may
    ├── ProviderError         .vendor .status .request_id .retry_after
    │   ├── Unauthorized
    │   ├── BadRequest
    │   │   └── ModelNotFound
    │   ├── Refused
    │   ├── ContextTooLong      the engine compacts, once
    │   ├── RateLimited         retryable, .retry_after
    │   ├── Overloaded          retryable
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
    │   └── ToolTimeout
    ├── StorageError
    │   ├── Conflict
    │   ├── NotFound
    │   └── Unavailable         retryable
    ├── SandboxError
    │   └── SandboxLost
    ├── GuardrailTripped      says which, and why
    ├── BudgetExceeded        rounds, tokens, money or time
    └── ContractError         .rule; a back end broke its promise; always a bug

The first branch answers *who acts on it*. Absence is `None`, a timed-out
command is a result, and cancellation is `CancelledError` passing through:
none of these is an error of ours.
"""

from __future__ import annotations

import re

__all__ = [
    "GnomonError",
    "ConfigError",
    "UnknownName",
    "MissingExtra",
    "MissingKey",
    "InvalidInput",
    "NotTrusted",
    "ProviderError",
    "Unauthorized",
    "BadRequest",
    "ModelNotFound",
    "Refused",
    "ContextTooLong",
    "RateLimited",
    "Overloaded",
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
    "StorageError",
    "Conflict",
    "NotFound",
    "Unavailable",
    "SandboxError",
    "SandboxLost",
    "GuardrailTripped",
    "BudgetExceeded",
    "ContractError",
    "scrub",
]

_REDACTED = "[redacted]"

# What a key looks like in a message, a URL or a header dump. Each pattern keeps
# its first group, so a reader still sees which kind of secret stood there.
_SECRETS = re.compile(
    r"""
    (\bbearer\s+|\bbasic\s+)[\w.~+/=-]{8,}                    # authorization headers
    | (\b(?:sk|pk|rk|gsk|xai|pplx|hf|ghp|gho|ghs|glpat|xox[abps]|AIza|AKIA|ASIA)(?=[-_0-9A-Z]))[-\w]{8,}
    | (\beyJ)[\w-]{8,}\.[\w-]{8,}\.[\w-]*                     # JSON web tokens
    | ((?:api[-_]?key|(?:access|auth)[-_]?token|token|secret|password|passwd|pwd)["']?\s*[=:]\s*["']?)
      [^\s"'&,;}]{4,}
    | ([a-z][a-z0-9+.-]*://)[^\s/:@]*:[^\s/@]+(?=@)           # user:password in a URL
    """,
    re.VERBOSE | re.IGNORECASE,
)


def scrub(text: str) -> str:
    """The text with anything that looks like a secret taken out."""
    return _SECRETS.sub(lambda found: next((g for g in found.groups() if g), "") + _REDACTED, text)


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

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class ConfigError(GnomonError):
    """Something the programmer or the user wrote cannot be used as it is."""

    code = "config"


class UnknownName(ConfigError):
    code = "unknown_name"


class MissingExtra(ConfigError):
    code = "missing_extra"


class MissingKey(ConfigError):
    code = "missing_key"


class InvalidInput(ConfigError):
    code = "invalid_input"


class NotTrusted(ConfigError):
    code = "not_trusted"


class ProviderError(GnomonError):
    """A model service failed, or refused."""

    code = "provider"

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
        self.vendor = vendor
        self.status = status
        self.vendor_code = vendor_code
        self.request_id = request_id
        self.retry_after = retry_after
        if retryable is not None:
            self.retryable = retryable

    def __str__(self) -> str:
        facts = [f"status {self.status}" if self.status else "", self.vendor_code or ""]
        facts.append(f"request {self.request_id}" if self.request_id else "")
        where = f"{self.vendor}: " if self.vendor else ""
        known = ", ".join(fact for fact in facts if fact)
        text = f"{where}{self.message}" + (f" [{known}]" if known else "")
        return f"{text} ({self.hint})" if self.hint else text


class Unauthorized(ProviderError):
    code = "unauthorized"


class BadRequest(ProviderError):
    code = "bad_request"


class ModelNotFound(BadRequest):
    code = "model_not_found"


class Refused(ProviderError):
    code = "refused"


class ContextTooLong(ProviderError):
    code = "context_too_long"


class RateLimited(ProviderError):
    code = "rate_limited"
    retryable = True


class Overloaded(ProviderError):
    code = "overloaded"
    retryable = True


class StreamCut(ProviderError):
    code = "stream_cut"
    retryable = True


class ProviderTimeout(ProviderError):
    code = "timeout"
    retryable = True


class ConnectTimeout(ProviderTimeout):
    code = "connect_timeout"


class FirstByteTimeout(ProviderTimeout):
    code = "first_byte_timeout"


class IdleTimeout(ProviderTimeout):
    code = "idle_timeout"


class TotalTimeout(ProviderTimeout):
    code = "total_timeout"


class ToolError(GnomonError):
    """The model reads the message and may try another way."""

    code = "tool"


class InvalidArguments(ToolError):
    code = "invalid_arguments"


class ToolFailed(ToolError):
    code = "tool_failed"


class ToolDenied(ToolError):
    code = "tool_denied"


class ToolTimeout(ToolError):
    code = "tool_timeout"


class StorageError(GnomonError):
    code = "storage"


class Conflict(StorageError):
    code = "conflict"


class NotFound(StorageError):
    code = "not_found"


class Unavailable(StorageError):
    code = "unavailable"
    retryable = True


class SandboxError(GnomonError):
    code = "sandbox"


class SandboxLost(SandboxError):
    code = "sandbox_lost"


class GuardrailTripped(GnomonError):
    code = "guardrail_tripped"


class BudgetExceeded(GnomonError):
    code = "budget_exceeded"


class ContractError(GnomonError):
    """A back end broke its promise; `rule` names which one. Always a bug."""

    code = "contract"

    def __init__(self, message: str, *, rule: str, hint: str | None = None) -> None:
        super().__init__(f"{message} [rule {rule}]", hint=hint)
        self.rule = rule

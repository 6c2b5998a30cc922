"""What DynamoDB and its driver say went wrong, in the words of a store.

Messages are made here and not taken over: those of the service name accounts
and roles, and one about a signature may repeat what was signed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from botocore.exceptions import (  # pyright: ignore[reportMissingTypeStubs]
    BotoCoreError,
    ChecksumError,
    ClientError,
    ConfigNotFound,
    ConfigParseError,
    ConnectionClosedError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
    InvalidConfigError,
    InvalidRegionError,
    LoginError,
    NoAuthTokenError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    ProxyConnectionError,
    ReadTimeoutError,
    SSLError,
    SSOError,
    TokenRetrievalError,
    UnknownCredentialError,
)
from botocore.parsers import ResponseParserError  # pyright: ignore[reportMissingTypeStubs]

from gnomon.errors import AccessDenied, ConfigError, InvalidInput, StorageError, StorageFull, WrongSchema
from gnomon.storage._rows import Lost

__all__ = ["DRIVER_ERRORS", "Busy", "Refused", "TableExists", "translated"]

DRIVER_ERRORS = (BotoCoreError, ClientError, ResponseParserError, OSError, TimeoutError)

_UNMET = "ConditionalCheckFailed"
_REFUSED_KEYS = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "IncompleteSignatureException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "OptInRequired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_ALLOWED_BY = {"TransactWriteItems": "dynamodb:PutItem and dynamodb:DeleteItem"}
"""What has no permission of its own."""
_NOT_ALLOWED = frozenset({"AccessDenied", "AccessDeniedException", "KMSAccessDeniedException"})
_NOT_NOW = frozenset(
    {
        # too much is asked at once
        "LimitExceededException",
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottledException",
        "Throttling",
        "ThrottlingError",
        "ThrottlingException",
        # somebody else writes the same item in this moment
        "ReplicatedWriteConflictException",
        "TransactionConflict",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
_NO_KEYS = (
    CredentialRetrievalError,
    LoginError,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
    UnknownCredentialError,
)
_MISTAKES = (
    ConfigNotFound,
    ConfigParseError,
    InvalidConfigError,
    InvalidRegionError,
    NoRegionError,
    ProfileNotFound,
)


class Busy(Exception):
    """Nothing was done, and it may be asked again in a moment."""


class Refused(Exception):
    """A condition does not hold, and nothing was done; `at` are the places of those in what was asked."""

    def __init__(self, at: frozenset[int]) -> None:
        super().__init__(f"conditions {sorted(at)} do not hold")
        self.at = at


class TableExists(Exception):
    """The table is there already, or somebody makes it in this moment."""


def translated(error: Exception, where: str) -> Exception:
    """The error to raise instead; one of the classes above is for the layer just above the driver."""
    if isinstance(error, ClientError):
        return _answered(error, where)
    if isinstance(error, _NO_KEYS):
        hint = (
            "credentials come from the environment, a profile or the machine's role, as for any AWS program"
        )
        return AccessDenied(f"{where}: no AWS credentials can be used ({type(error).__name__})", hint=hint)
    if isinstance(error, _MISTAKES):
        return ConfigError(f"{where}: the settings of AWS cannot be used: {error}")
    if isinstance(error, SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
        hint = "for a certificate of your own, set AWS_CA_BUNDLE to the file of its authority"
        return StorageError(f"{where}: the server's certificate cannot be trusted", hint=hint)
    return Lost(_what_broke(error))


def _answered(error: ClientError, where: str) -> Exception:
    answer = cast("Mapping[str, object]", error.response)
    code, operation = _code(answer), str(cast(object, error.operation_name))
    if code == "ConditionalCheckFailedException":
        return _unmet(answer)
    if code == "TransactionCanceledException":
        return _cancelled(answer, where)
    if code in _NOT_NOW:
        return Busy(f"{operation} was put off: {code}")
    if code in _REFUSED_KEYS or code in _NOT_ALLOWED:
        return _denied(code, operation, where)
    if code == "ResourceNotFoundException":
        hint = "call migrate() on the store, or run: gnomon db migrate; or mend the name or the region"
        return WrongSchema(f"{where}: there is no such table", hint=hint)
    if code in ("ResourceInUseException", "TableAlreadyExistsException"):
        return TableExists(code)
    if code == "ItemCollectionSizeLimitExceededException":
        return StorageFull(f"{where}: the table has no room for more under this key")
    if _status(answer) >= 500 or code in ("RequestTimeout", "RequestTimeoutException"):
        return Lost(f"{operation} was answered with {code}")
    kind = InvalidInput if code == "ValidationException" else StorageError
    return kind(f"{where}: {operation} was refused with {code}: {_message(answer)}")


def _denied(code: str, operation: str, where: str) -> AccessDenied:
    if code in _NOT_ALLOWED:
        needed = _ALLOWED_BY.get(operation, f"dynamodb:{operation}")
        hint = f"allow {needed} on this table to the user or role that runs this"
        return AccessDenied(f"{where}: dynamodb:{operation} is not allowed ({code})", hint=hint)
    hint = "look at the access key, its session token, the region, and this machine's clock"
    return AccessDenied(f"{where}: the AWS credentials were not accepted ({code})", hint=hint)


def _unmet(answer: Mapping[str, object]) -> Exception:
    """A driver that asks again by itself may meet with what its own first try has written."""
    metadata = cast("Mapping[str, object]", answer.get("ResponseMetadata", {}))
    if metadata.get("RetryAttempts"):
        return Lost("the driver asked twice, and so the answer says nothing")
    return Refused(frozenset({0}))


def _cancelled(answer: Mapping[str, object], where: str) -> Exception:
    """A transaction says of each of its actions what was in the way, if anything."""
    reasons = cast("list[Mapping[str, object]]", answer.get("CancellationReasons", []))
    codes = [str(reason.get("Code", "None")) for reason in reasons]
    if _UNMET in codes:
        return Refused(frozenset(at for at, code in enumerate(codes) if code == _UNMET))
    others = {code for code in codes if code not in ("None", *_NOT_NOW)}
    if others:
        return StorageError(f"{where}: a transaction was refused with {', '.join(sorted(others))}")
    return Busy("a transaction was put off")


def _what_broke(error: Exception) -> str:
    match error:
        case ConnectTimeoutError():
            return "no connection in time"
        case EndpointConnectionError() | ProxyConnectionError() | SSLError():
            return f"no connection ({type(error).__name__})"
        case ReadTimeoutError() | TimeoutError():
            return "no answer in time"
        case ConnectionClosedError() | IncompleteReadError() | HTTPClientError():
            return "the connection broke"
        case ChecksumError() | ResponseParserError():
            return "the answer cannot be read"
        case _:
            return type(error).__name__


def _code(answer: Mapping[str, object]) -> str:
    return str(cast("Mapping[str, object]", answer.get("Error", {})).get("Code", "Unknown"))


def _message(answer: Mapping[str, object]) -> str:
    return str(cast("Mapping[str, object]", answer.get("Error", {})).get("Message", ""))[:300]


def _status(answer: Mapping[str, object]) -> int:
    metadata = cast("Mapping[str, object]", answer.get("ResponseMetadata", {}))
    return int(str(metadata.get("HTTPStatusCode", 0)))

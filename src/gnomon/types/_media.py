"""Reading an attachment: its bytes, and what kind they are."""

from __future__ import annotations

import os
from os import PathLike, fspath
from stat import S_ISFIFO, S_ISREG

from gnomon.errors import InvalidInput

__all__ = ["media_type_of", "read_attachment"]

_LIMIT_BYTES = 512 * 1024**2

_SIGNATURES: dict[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": "application/pdf",
    b"ID3": "audio/mpeg",
    b"OggS": "audio/ogg",
    b"fLaC": "audio/flac",
}
_RIFF_KINDS = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}


def media_type_of(data: bytes, name: str = "") -> str | None:
    """What the bytes say they are; else what the name says; else `None`."""
    for mark, media_type in _SIGNATURES.items():
        if data.startswith(mark):
            return media_type
    if data.startswith(b"RIFF") and data[8:12] in _RIFF_KINDS:
        return _RIFF_KINDS[data[8:12]]
    import mimetypes  # only needed for attachments, and slow to import

    return mimetypes.guess_type(name)[0]


def read_attachment(path: str | PathLike[str], *, what: str) -> tuple[bytes, str | None]:
    """The bytes of a file and their media type, or one clear error."""
    name = fspath(path)
    try:
        # A pipe that nobody writes to would hold up `open`; what is judged is what was opened.
        with open(name, "rb", opener=lambda path, how: os.open(path, how | os.O_NONBLOCK)) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not S_ISREG(mode):
                found = "a pipe" if S_ISFIFO(mode) else "a device"
                detail = f"it is {found}, and a pipe or a device has no end"
                raise InvalidInput(f"cannot attach {name!r} as {what}: {detail}", hint="name a file")
            data = file.read(_LIMIT_BYTES + 1)
    except IsADirectoryError:
        raise InvalidInput(f"cannot attach {name!r} as {what}: it is a folder", hint="name a file") from None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise InvalidInput(f"cannot attach {name!r} as {what}: {reason}") from error
    except ValueError as error:  # a NUL byte in the path
        raise InvalidInput(f"cannot attach {name!r} as {what}: {error}") from error
    if len(data) > _LIMIT_BYTES:
        raise InvalidInput(f"cannot attach {name!r} as {what}: it has more than {_LIMIT_BYTES // 1024**2} MB")
    if not data:
        raise InvalidInput(f"cannot attach {name!r} as {what}: it is empty")
    return data, media_type_of(data, name)

"""Reading an attachment: its bytes, and what kind they are."""

from __future__ import annotations

from os import PathLike, fspath

from gnomon.errors import InvalidInput

__all__ = ["media_type_of", "read_attachment"]

_SIGNATURES: tuple[tuple[bytes, int, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"GIF8", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
    (b"%PDF-", 0, "application/pdf"),
    (b"WAVE", 8, "audio/wav"),
    (b"ID3", 0, "audio/mpeg"),
    (b"OggS", 0, "audio/ogg"),
    (b"fLaC", 0, "audio/flac"),
)


def media_type_of(data: bytes, name: str = "") -> str | None:
    """What the bytes say they are; else what the name says; else `None`."""
    for mark, offset, media_type in _SIGNATURES:
        if data[offset : offset + len(mark)] == mark:
            return media_type
    import mimetypes  # only needed for attachments, and slow to import

    return mimetypes.guess_type(name)[0]


def read_attachment(path: str | PathLike[str], *, what: str) -> tuple[bytes, str | None]:
    """The bytes of a file and their media type, or one clear error."""
    name = fspath(path)
    try:
        with open(name, "rb") as file:
            data = file.read()
    except IsADirectoryError:
        raise InvalidInput(f"cannot attach {name!r} as {what}: it is a folder", hint="name a file") from None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise InvalidInput(f"cannot attach {name!r} as {what}: {reason}") from error
    except ValueError as error:  # a NUL byte in the path
        raise InvalidInput(f"cannot attach {name!r} as {what}: {error}") from error
    return data, media_type_of(data, name)

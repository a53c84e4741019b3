"""Files at URLs, and on file systems of pyarrow."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.fs as fs

#: The largest file that is copied to this machine. A download that does not end fills no disk.
MAX_BYTES = 64 << 30
#: The bytes that are read at a time.
_BLOCK = 1 << 20
#: A server that sends nothing for so long is given up.
_SILENT_SECONDS = 60
#: The longest name of a copy; file systems take 255 bytes.
_NAME_LENGTH = 100

#: What helps after a response of this status.
_REMEDIES = {
    401: "it wants a login: download the file and give its path",
    403: "it wants a login, or the signature in the address is too old",
    404: "check the address",
    410: "check the address",
    429: "try again later",
}


def located(source: str, filesystem: Any) -> tuple[Any, str]:
    """Returns the file system of a path or URL, and the path there.

    It is None for a path on this machine, also of ``file://``, and for an address of the web.
    """
    if filesystem is not None:
        if not isinstance(filesystem, fs.FileSystem):
            raise TypeError(
                f"filesystem: {type(filesystem).__name__} is none of pyarrow.fs; one of fsspec can"
                " be given as pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(…))"
            )
        return (None if isinstance(filesystem, fs.LocalFileSystem) else filesystem), source
    if "://" not in source or is_web(source):
        return None, source
    try:
        found, path = fs.FileSystem.from_uri(source)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(
            f"{shown(source)}: {error}; a URL starts with https://, s3://, gs:// or file:///"
        ) from None
    return (None if isinstance(found, fs.LocalFileSystem) else found), path


def is_web(source: str) -> bool:
    return source.lower().startswith(("http://", "https://"))


def shown(source: str) -> str:
    """Returns the URL without a user, a password and a query, which may be secrets."""
    if "://" not in source:
        return source
    scheme, _, rest = source.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}://{place.rpartition('@')[2]}{slash}{path}".split("?")[0].split("#")[0]


def name_of(source: str) -> str:
    """Returns the last part of a path or URL."""
    if not is_web(source):
        return os.path.basename(source)
    name = urllib.parse.unquote(urllib.parse.urlsplit(source).path.rstrip("/"))
    name = name.rpartition("/")[2].replace("\0", "")
    return name if name not in ("", ".", "..") else "trace"


class Copy:
    """A file of another machine in a temporary directory of this one."""

    def __init__(self, source: str, filesystem: Any) -> None:
        self.directory = tempfile.mkdtemp(prefix="larder-")
        # The end of the name tells the format.
        self.path = os.path.join(self.directory, name_of(source)[-_NAME_LENGTH:])
        try:
            with _opened(source, filesystem) as blocks, open(self.path, "wb") as copy:
                self._write(source, blocks, copy)
        except BaseException:
            self.remove()
            raise

    def _write(self, source: str, blocks: Iterator[bytes], copy: Any) -> None:
        length = 0
        for block in blocks:
            length += len(block)
            if length > MAX_BYTES:
                raise ValueError(
                    f"{shown(source)}: more than {MAX_BYTES >> 30} GiB; download it, and give the"
                    " path"
                )
            try:
                copy.write(block)
            except OSError as error:
                raise OSError(
                    f"{shown(source)}: the copy in {self.directory} failed after {length} bytes:"
                    f" {error.strerror}; TMPDIR names another directory"
                ) from error

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def _opened(source: str, filesystem: Any) -> Iterator[Iterator[bytes]]:
    if filesystem is None:
        with _response(source) as response:
            yield _web_blocks(source, response)
        return
    try:
        # Larder decompresses by the first bytes, not by the name.
        stream = filesystem.open_input_stream(source, compression=None)
    except FileNotFoundError:
        raise FileNotFoundError(f"{shown(source)}: no such file") from None
    with stream:
        yield iter(lambda: stream.read(_BLOCK), b"")


def _response(url: str) -> Any:
    # Spaces and letters of other alphabets, as browsers take them; what is quoted stays so.
    quoted = urllib.parse.quote(url, safe="%/:=&?~#+!$,;'@()*[]")
    request = urllib.request.Request(quoted, headers={"User-Agent": "larder-cache"})
    try:
        return urllib.request.urlopen(request, timeout=_SILENT_SECONDS)
    except urllib.error.HTTPError as error:
        with error:
            again = "try again later" if error.code >= 500 else "check the address"
            remedy = _REMEDIES.get(error.code, again)
            message = f"{shown(url)}: status {error.code} {error.reason}; {remedy}"
        kind = {401: PermissionError, 403: PermissionError, 404: FileNotFoundError}
        raise kind.get(error.code, OSError)(message) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise OSError(
            f"{shown(url)}: {reason}; check the address and the connection, or download the file"
            " and give its path"
        ) from None


def _web_blocks(url: str, response: Any) -> Iterator[bytes]:
    expected, read = response.length, 0
    problem: object = "the connection ended"
    try:
        while block := response.read(_BLOCK):
            read += len(block)
            yield block
        if expected is None or read == expected:
            return
    except (OSError, http.client.HTTPException) as error:
        problem = error
    whole = "an unknown number of" if expected is None else expected
    raise OSError(f"{shown(url)}: after {read} of {whole} bytes: {problem}; try again")

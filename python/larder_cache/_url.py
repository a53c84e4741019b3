"""Files at URLs, and on file systems of pyarrow."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.fs as fs

#: The largest file that is copied to this machine. A download that does not end fills no disk.
MAX_BYTES = 64 << 30
#: The bytes that are read at a time.
_BLOCK = 1 << 20
#: A server that sends nothing for so long is given up.
_SILENT_SECONDS = 60
#: The longest name of a copy. File systems take no longer one.
_NAME_BYTES = 255

_T = TypeVar("_T")

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
    if is_web(source):
        if _has_user(source.partition("://")[2], True):
            raise ValueError(
                f"{shown(source)}: a user and a password in the address are not sent; download the"
                " file and give its path"
            )
        return None, source
    if "://" not in source:
        return None, source
    try:
        found, path = unless_interrupted(lambda: fs.FileSystem.from_uri(source))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # The library's text quotes the URL with its password.
        raise ValueError(
            f"{shown(source)}: pyarrow reads no such URL; a URL starts with https://, s3://, gs://"
            " or file:///, its special characters are quoted (%20 is a space, %2F a slash in a"
            " password), and its query has known names"
        ) from None
    return (None if isinstance(found, fs.LocalFileSystem) else found), path


def unless_interrupted(work: Callable[[], _T]) -> _T:
    """Returns what ``work`` returns: a call of pyarrow, which waits for the network.

    Such a call does not listen to Ctrl-C, so it runs on a thread of its own. Ctrl-C leaves the
    thread behind, and it ends by itself.
    """
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        # Signals are looked for between two waits.
        thread.join(0.05)
    if errors:
        # Cleared, because the error's frames refer to the list.
        raise errors.pop()
    return results[0]


def is_web(source: str) -> bool:
    return source.lower().startswith(("http://", "https://"))


def shown(source: str) -> str:
    """Returns the URL without a user, a password and a query, which may be secrets."""
    return re.split("[?#]", without_user(source))[0] if "://" in source else source


def without_user(source: str) -> str:
    """Returns the URL without a user and a password."""
    scheme, mark, rest = source.partition("://")
    if mark and _has_user(rest, is_web(source)):
        rest = rest.rpartition("@")[2]
    return scheme + mark + rest


def _has_user(rest: str, is_web: bool) -> bool:
    """Returns true if there is a user before the host, even with a password that is not quoted."""
    place = re.split("[/?#]", rest)[0]
    _, colon, word = place.partition(":")
    is_port = is_web and word.isdigit()
    return "@" in place or (bool(colon) and not is_port and "@" in rest)


def name_of(source: str) -> str:
    """Returns the last part of a path or URL."""
    if not is_web(source):
        return os.path.basename(source)
    name = urllib.parse.unquote(urllib.parse.urlsplit(source).path.rstrip("/"))
    name = name.rpartition("/")[2].replace("\0", "")
    return name if name not in ("", ".", "..") else "trace"


#: What errors call the copies that exist, by their paths.
_copies: dict[str, str] = {}


@contextlib.contextmanager
def named_copies() -> Iterator[None]:
    """Puts the URL in the place of the copy's path in errors, which name the file."""
    try:
        yield
    except (ValueError, OSError) as error:
        text = str(error)
        for path, source in list(_copies.items()):
            text = text.replace(path, source)
        if text == str(error):
            raise
        kind = ValueError if isinstance(error, ValueError) else OSError
        raise kind(text) from None


class Copy:
    """A file of another machine on this one.

    It has no name, so it ends with this process, however that ends. A link in a temporary directory
    leads to it while the process has it open.
    """

    def __init__(self, source: str, filesystem: Any) -> None:
        self._file = tempfile.TemporaryFile(prefix="larder-")  # noqa: SIM115
        self.directory = tempfile.mkdtemp(prefix="larder-")
        self._process = os.getpid()
        # The end of the name tells the format. The cut may be within a character.
        name = os.fsencode(name_of(source))[-_NAME_BYTES:].decode("utf-8", "ignore")
        self.path = os.path.join(self.directory, name or "trace")
        _copies[self.path] = shown(source)
        try:
            os.symlink(f"/proc/self/fd/{self._file.fileno()}", self.path)
            with _opened(source, filesystem) as blocks:
                self._write(source, blocks, self._file)
            self._file.flush()
        except BaseException:
            self.remove()
            raise

    def _write(self, source: str, blocks: Iterator[bytes], copy: Any) -> None:
        length = 0
        for block in blocks:
            length += len(block)
            if length > MAX_BYTES:
                raise _too_large(source)
            try:
                copy.write(block)
            except OSError as error:
                place = tempfile.gettempdir()
                raise OSError(
                    f"{shown(source)}: the copy in {place} failed after {length} bytes:"
                    f" {error.strerror}; TMPDIR names another directory"
                ) from error

    def remove(self) -> None:
        # A child of a fork has the same object, and the parent still reads the file.
        if os.getpid() == self._process:
            _copies.pop(self.path, None)
            self._file.close()
            shutil.rmtree(self.directory, ignore_errors=True)


def _too_large(source: str) -> ValueError:
    limit = MAX_BYTES >> 30
    return ValueError(f"{shown(source)}: more than {limit} GiB; download it, and give the path")


@contextlib.contextmanager
def _opened(source: str, filesystem: Any) -> Iterator[Iterator[bytes]]:
    if filesystem is None:
        with _response(source) as response:
            if (response.length or 0) > MAX_BYTES:
                raise _too_large(source)
            yield _web_blocks(source, response)
        return
    try:
        # Larder decompresses by the first bytes, not by the name.
        stream = unless_interrupted(lambda: filesystem.open_input_stream(source, compression=None))
    except FileNotFoundError:
        raise FileNotFoundError(f"{shown(source)}: no such file") from None
    yield iter(lambda: unless_interrupted(lambda: stream.read(_BLOCK)), b"")
    # After an interruption, a thread still reads.
    stream.close()


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects within the web. The library would also follow them to FTP."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if not is_web(newurl):
            raise urllib.error.HTTPError(req.full_url, code, msg, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _response(url: str) -> Any:
    # Spaces and letters of other alphabets, as browsers take them; what is quoted stays so.
    quoted = urllib.parse.quote(url, safe="%/:=&?~#+!$,;'@()*[]")
    request = urllib.request.Request(quoted, headers={"User-Agent": "larder-cache"})
    try:
        return urllib.request.build_opener(_Redirects).open(request, timeout=_SILENT_SECONDS)
    except urllib.error.HTTPError as error:
        with error:
            # Not the server's or the library's text, which may quote the address of a redirect.
            status = f"status {error.code} {http.client.responses.get(error.code, '')}".rstrip()
            again = "try again later" if error.code >= 500 else "check the address"
            remedy = _REMEDIES.get(error.code, again)
            message = f"{shown(url)}: {status}; {remedy}"
        if 300 <= error.code < 400:
            raise ValueError(
                f"{shown(url)}: {status} leads in a circle, or to no address of http:// or"
                " https://; give the address of the file"
            ) from None
        kind = {401: PermissionError, 403: PermissionError, 404: FileNotFoundError}
        raise kind.get(error.code, OSError)(message) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        if not isinstance(reason, OSError):
            # These texts quote the URL, or the line that a server has sent.
            reason = "the address, or the server's answer, is not of HTTP"
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

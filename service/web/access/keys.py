"""API keys: who may call, with which role, and for which models. Only hashes of them are kept and compared."""

import asyncio
import base64
import hashlib
import hmac
import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from service.errors import InvalidSettings

LOOK_SECONDS = 1.0
"""How often the file of keys is checked for changes."""

log = logging.getLogger(__name__)


class Role(IntEnum):
    """What a key allows; each role includes those before it."""

    OPEN = 0
    """For routes that need no key."""
    READ = 1
    WRITE = 2
    ADMIN = 3


ROLES = {role.name.lower(): role for role in Role if role is not Role.OPEN}


@dataclass(slots=True, eq=False)
class Key:
    """A key that the service knows."""

    name: str
    role: Role
    digest: bytes
    """The SHA-256 of the secret."""
    prefix: str = ""
    """Models whose names do not begin with it do not exist for the key's holder."""
    revoked: bool = False
    """Whether it was removed from the file while the service runs."""
    came_from: dict[str, None] = field(default_factory=dict)
    """Addresses that it came from, the oldest first."""
    when_revoked: set[Callable[[], None]] = field(default_factory=set)
    """Called then: what ends the streams that were opened with it."""

    def revoke(self) -> None:
        self.revoked = True
        for tell in [*self.when_revoked]:
            tell()

    @property
    def line(self) -> str:
        """The key as a line of the settings.

        >>> Key("acme", Role.WRITE, bytes(32), "acme-").line
        'acme:write:sha256:0000000000000000000000000000000000000000000000000000000000000000:acme-'
        """
        prefix = f":{self.prefix}" if self.prefix else ""
        return f"{self.name}:{self.role.name.lower()}:sha256:{self.digest.hex()}{prefix}"


_LINE = re.compile(
    rf"(?P<name>[A-Za-z0-9._-]{{1,64}}):(?P<role>{'|'.join(ROLES)}):sha256:(?P<digest>[0-9a-fA-F]{{64}})"
    r"(?::(?P<prefix>[A-Za-z0-9._:-]{1,128}))?"
)
FORM = "NAME:ROLE:sha256:HASH, or NAME:ROLE:sha256:HASH:PREFIX, as `novikoff key` prints it"


class BadKeys(ValueError):
    """A list of keys is malformed. The text quotes nothing of it, since it may contain a secret by mistake."""


def make_key(name: str, role: str, prefix: str = "") -> tuple[str, Key]:
    """A new secret of 256 random bits, and its key for the service; BadKeys if the name or prefix is invalid."""
    secret = "nvk_" + base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")
    line = Key(name, ROLES[role], digest_of(secret.encode()), prefix).line
    if not _LINE.fullmatch(line):
        raise BadKeys(
            "a name has 1 to 64 letters, digits, '.', '_' and '-'; a prefix is how a model's name begins"
        )
    (key,) = parse(line).values()
    return secret, key


def digest_of(secret: bytes) -> bytes:
    """The hash of a secret. Secrets are 256 random bits, so a fast hash is as safe as a slow one."""
    return hashlib.sha256(secret).digest()


def parse(text: str) -> dict[bytes, Key]:
    """Keys by their hashes: one a line, or comma-separated; # begins a comment.

    >>> [key.name for key in parse(f"dash:read:sha256:{'0' * 64} # for the page").values()]
    ['dash']
    >>> parse("dash:read:my-secret")
    Traceback (most recent call last):
    service.web.access.keys.BadKeys: entry 1 is not NAME:ROLE:sha256:HASH, or NAME:ROLE:sha256:HASH:PREFIX, ...
    """
    entries = [
        entry for line in text.splitlines() for entry in re.split(r"[,\s]+", line.split("#")[0]) if entry
    ]
    keys: dict[bytes, Key] = {}
    names: set[str] = set()
    for number, entry in enumerate(entries, 1):
        found = _LINE.fullmatch(entry)
        if found is None:
            raise BadKeys(f"entry {number} is not {FORM}")
        key = Key(found["name"], ROLES[found["role"]], bytes.fromhex(found["digest"]), found["prefix"] or "")
        if key.name in names or key.digest in keys:
            raise BadKeys(f"entry {number} repeats the name or hash of an earlier entry")
        names.add(key.name)
        keys[key.digest] = key
    if not keys:
        raise BadKeys("there are no keys")
    return keys


class KeyRing:
    """The valid keys: those of the setting and those of the file, which is read again when it changes."""

    def __init__(self, inline: str, file: str) -> None:
        self._inline = inline
        self._file = Path(file) if file else None
        self._stamp = self._file_stamp()
        self._keys = self._read()
        self._prefixes = _prefixes_of(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def prefixes(self) -> list[str]:
        """Of keys that are good for some models only, the shortest first."""
        return self._prefixes

    def find(self, secret: bytes) -> Key | None:
        """The key of a secret, None if it is unknown. The time that this takes reveals nothing about valid keys, since
        a hash is looked up, which callers cannot choose."""
        digest = digest_of(secret)
        key = self._keys.get(digest)
        return key if key is not None and hmac.compare_digest(key.digest, digest) else None

    async def follow(self) -> None:
        """Check the file for changes, for as long as the service runs."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._file is not None:
                self.look()

    def look(self) -> None:
        """Read the file again if it has changed; if it is malformed now, the keys stay as they were."""
        stamp = self._file_stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._check_in_place()
            keys = self._read()
        except InvalidSettings as error:
            log.error("API keys not reloaded, the old ones stay valid: %s", error.detail)
            return
        for old in self._keys.values():
            new = keys.get(old.digest)
            if new is not None and new.line == old.line:
                keys[old.digest] = old
            else:
                old.revoke()
        self._keys = keys
        self._prefixes = _prefixes_of(keys)
        log.info("API keys reloaded", extra={"keys": len(keys)})

    def _read(self) -> dict[bytes, Key]:
        source, text = "NOVIKOFF_API_KEYS", self._inline
        try:
            if self._file is not None:
                source = f"{'NOVIKOFF_API_KEYS and ' if text else ''}{self._file}"
                text = f"{text}\n{self._file.read_text()}"
            return parse(text)
        except BadKeys as error:
            raise InvalidSettings(f"{source}: {error}") from None
        except OSError as error:
            raise InvalidSettings(f"{source}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InvalidSettings(f"{source}: is not a text file") from None

    def _check_in_place(self) -> None:
        """InvalidSettings if the file was replaced by renaming and this process cannot see the new one.

        That is so in a container if the file is mounted by itself: the mount keeps the old file, which has no name
        any more. Of a directory that is mounted, the new one is seen.
        """
        if self._file is not None and self._file.exists() and self._file.stat().st_nlink == 0:
            raise InvalidSettings(
                f"{self._file} was replaced, but a mount of the file alone shows the old one: mount its directory"
            )

    def _file_stamp(self) -> tuple[int, ...] | None:
        """A value that changes when the file does."""
        if self._file is None:
            return None
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino, found.st_nlink


def _prefixes_of(keys: dict[bytes, Key]) -> list[str]:
    return sorted({key.prefix for key in keys.values() if key.prefix}, key=len)

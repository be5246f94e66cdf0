"""NATS servers in operator mode: who may come in is told by signed tokens, and a user has a credentials file."""

import json
import os
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import nkeys


class Signer:
    """An operator, an account or a user: a name, a pair of keys, and what it says of others."""

    def __init__(self, name: str, kind: int) -> None:
        self.name = name
        self.seed: bytes = nkeys.encode_seed(os.urandom(32), kind)
        self._keys = nkeys.from_seed(bytearray(self.seed))
        self.public: str = self._keys.public_key.decode()

    def token(self, subject: "Signer", kind: str, **claims: Any) -> str:
        """A JWT in which this one says what another may do."""
        said = {
            "jti": os.urandom(16).hex(),
            "iat": int(time.time()),
            "iss": self.public,
            "name": subject.name,
            "sub": subject.public,
            "nats": {"type": kind, "version": 2, **claims},
        }
        signed = f"{_encoded({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_encoded(said)}"
        return f"{signed}.{_base64(self._keys.sign(signed.encode()))}"


class Operator:
    """One operator with an account for its servers and one whose use of JetStream is limited."""

    def __init__(self, **jetstream: int) -> None:
        self._operator = Signer("operator", nkeys.PREFIX_BYTE_OPERATOR)
        self._system = Signer("system", nkeys.PREFIX_BYTE_ACCOUNT)
        self._account = Signer("account", nkeys.PREFIX_BYTE_ACCOUNT)
        self._jetstream = jetstream

    @property
    def config(self) -> str:
        """For a server: whom it trusts, and which accounts there are."""
        operator = self._operator
        any_number = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
        limits = {**any_number, "wildcards": True}
        tokens = {
            self._system.public: operator.token(self._system, "account", limits=limits),
            self._account.public: operator.token(self._account, "account", limits=limits | self._jetstream),
        }
        return "\n".join(
            [
                f"operator: {operator.token(operator, 'operator')}",
                f"system_account: {self._system.public}",
                "resolver: MEMORY",
                f"resolver_preload: {json.dumps(tokens)}",
            ]
        )

    def write_credentials(self, path: Path) -> Path:
        """A new user of the limited account, in a file such as `nsc generate creds` writes."""
        user = Signer("user", nkeys.PREFIX_BYTE_USER)
        token = self._account.token(user, "user", subs=-1, data=-1, payload=-1)
        path.write_text(
            f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
        )
        return path


def _encoded(said: object) -> str:
    return _base64(json.dumps(said).encode())


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()

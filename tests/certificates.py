"""Certificates made for a test: an authority, and what it signs for hosts and for clients."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = timedelta(days=1)


class Authority:
    """Signs certificates; `file` is its own one, in PEM."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._key = folder, _key()
        self._name = _named(name)
        basic = x509.BasicConstraints(ca=True, path_length=None)
        made = self._built(self._name, self._key.public_key(), 2 * DAY).add_extension(basic, critical=True)
        self.file = self._written(f"{name}.pem", made.sign(self._key, hashes.SHA256()).public_bytes(_PEM))

    def issue(self, name: str, *addresses: str, lives: timedelta = DAY, client: bool = False) -> Path:
        """Return a file with a key and its certificate, for some IP addresses; with a past end it has expired, and one
        for a client alone is for no server."""
        key = _key()
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(item)) for item in addresses])
        made = self._built(_named(name), key.public_key(), lives)
        if addresses:
            made = made.add_extension(names, critical=False)
        if client:
            made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        shown = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return self._written(f"{name}.pem", shown + made.sign(self._key, hashes.SHA256()).public_bytes(_PEM))

    def _built(self, name: x509.Name, key: rsa.RSAPublicKey, lives: timedelta) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        made = x509.CertificateBuilder().subject_name(name).issuer_name(self._name).public_key(key)
        made = made.serial_number(x509.random_serial_number())
        return made.not_valid_before(now - 3 * DAY).not_valid_after(now + lives)

    def _written(self, name: str, text: bytes) -> Path:
        file = self._folder / name
        file.touch(mode=0o600)
        file.write_bytes(text)
        return file


_PEM = serialization.Encoding.PEM


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

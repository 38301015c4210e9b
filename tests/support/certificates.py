"""Certificates for servers on loopback, signed by an authority of the test."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


class Authority:
    """An authority that signs certificates; `file` is its own certificate, which clients may trust."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "authority.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        made = self._started(self._name, self._key, ends=datetime.now(UTC) + DAY)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.file.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def certificate(self, host: str, *, ends: timedelta = DAY) -> Path:
        """Return the file of a new certificate with its key, for a name or an IP address."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
        made = self._started(name, key, ends=datetime.now(UTC) + ends)
        address = x509.DNSName(host) if host[-1].isalpha() else x509.IPAddress(ip_address(host))
        made = made.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        file = self.folder / f"{host}-{ends.days}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
        file.chmod(0o600)
        return file

    def _started(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, *, ends: datetime) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime.now(UTC) - 10 * DAY)
            .not_valid_after(ends)
        )


def tls_of(certificate: Path) -> ssl.SSLContext:
    """Return the TLS settings of a server with a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context

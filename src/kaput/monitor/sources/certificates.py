"""When the certificate that a listener presents expires: a TLS handshake, and nothing after it.

Does not verify the certificate: one that has expired or is untrusted has an expiry date too.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import closing

from cryptography import x509

from kaput.cluster.wire import Endpoint, Unanswered


def valid_until(endpoint: Endpoint, timeout_s: float) -> float:
    """The expiry in seconds since the epoch. Raises Unanswered."""
    try:
        with closing(socket.create_connection(endpoint.address, timeout_s)) as opened:
            opened.settimeout(timeout_s)
            with _unchecked(endpoint).wrap_socket(opened, server_hostname=endpoint.host) as talking:
                data = talking.getpeercert(binary_form=True)
    except OSError as error:
        raise Unanswered(f"{endpoint.host}:{endpoint.port}: {error}") from None
    if data is None:
        raise Unanswered(f"{endpoint.host}:{endpoint.port}: it presents no certificate")
    return x509.load_der_x509_certificate(data).not_valid_after_utc.timestamp()


def _unchecked(endpoint: Endpoint) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    given = endpoint.access.properties.get
    if own := given("ssl.keystore.location"):
        context.load_cert_chain(own, password=given("ssl.key.password"))
    return context

"""Why client and server refuse each other in a TLS handshake, in one sentence each."""

import ssl

_NOT_YET_VALID, _EXPIRED, _OTHER_HOST, _OTHER_ADDRESS = 9, 10, 62, 64
"""OpenSSL's X509_V_ERR_…"""


def untrusted(server: str, section: str, addresses: str, error: ssl.SSLCertVerificationError) -> str:
    """Return why a server's certificate is not accepted, and what to do.

    Args:
        server: the server with its address, for the sentence.
        section: the section of the settings with its `TlsClient`.
        addresses: the setting that has the server's address.
        error: the failed verification.
    """
    certificate = f"The certificate of {server}"
    if error.verify_code == _EXPIRED:
        return f"{certificate} has expired: renew it there."
    if error.verify_code == _NOT_YET_VALID:
        return f"{certificate} is not valid yet: correct this machine's clock."
    if error.verify_code in (_OTHER_HOST, _OTHER_ADDRESS):
        return (
            f"{certificate} is for another host: use its name in {addresses}, or set {section}.check_hostname to false."
        )
    return (
        f"{certificate} is not trusted ({error.verify_message}): set {section}.ca_file to the certificate of the "
        "authority that signed it."
    )


def is_alert(reason: str | None) -> bool:
    """Return whether OpenSSL's reason is an alert that the server sent."""
    return "ALERT" in (reason or "")


def refused_certificate(server: str, section: str, certificate_file: str | None, reason: str) -> str:
    """Return what to do about a TLS alert of a server, which nearly always is about the client's certificate.

    Args:
        server: the server with its address, for the sentence.
        section: the section of the settings with its `TlsClient`.
        certificate_file: the client's certificate; empty or None: it has none.
        reason: OpenSSL's.
    """
    alert = reason.partition("ALERT_")[2].replace("_", " ").lower()
    if certificate_file:
        return (
            f"{server} refuses the client certificate {certificate_file} ({alert}): renew it if it has expired, or let "
            "the broker trust the authority that signed it."
        )
    return (
        f"{server} refuses the TLS connection ({alert}): set {section}.certificate_file and {section}.key_file if it "
        "asks for a client certificate."
    )

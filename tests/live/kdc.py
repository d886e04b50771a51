"""A Kerberos realm of a test: MIT's KDC on a free port of loopback, with principals and their keys."""

import os
import shutil
import subprocess
from contextlib import AbstractContextManager
from typing import Self

from streaming.lab import servers

REALM = "LAB.TEST"
_PROGRAMS = {"krb5kdc": "/usr/sbin", "kadmin.local": "/usr/sbin", "kdb5_util": "/usr/sbin"}

_CLIENT_CONF = """\
[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
[realms]
{realm} = {{
  kdc = {host}:{port}
}}
"""
_KDC_CONF = """\
[kdcdefaults]
kdc_listen = {host}:{port}
kdc_tcp_listen = {host}:{port}
[realms]
{realm} = {{
  database_name = {home}/principal
  key_stash_file = {home}/stash
  max_life = 1d
}}
"""


def is_installed():
    """Return whether this machine has MIT's KDC."""
    return all(shutil.which(name, path=f"{folder}:{os.environ['PATH']}") for name, folder in _PROGRAMS.items())


class Kdc(AbstractContextManager):
    """A key distribution centre; `environment` makes C programs of this process find it, `java_options` a JVM."""

    def __init__(self, home):
        home.mkdir(parents=True)
        self._home = home
        self._process = None
        place = {"realm": REALM, "host": servers.LOOPBACK, "port": servers.free_port(), "home": home}
        self.conf = home / "krb5.conf"
        self.conf.write_text(_CLIENT_CONF.format(**place))
        (home / "kdc.conf").write_text(_KDC_CONF.format(**place))
        self.environment = {"KRB5_CONFIG": str(self.conf), "KRB5CCNAME": f"FILE:{home / 'tickets'}"}
        self.java_options = [f"-Djava.security.krb5.conf={self.conf}"]

    def __enter__(self) -> Self:
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master-key")
        self._process = subprocess.Popen(
            [self._program("krb5kdc"), "-n"], env=self._environment(), stderr=subprocess.DEVNULL
        )
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()

    def keytab(self, principal):
        """Add a principal; return the file with its key."""
        file = self._home / f"{principal.partition('/')[0]}.keytab"
        self._run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)
        self._run("kadmin.local", "-r", REALM, "ktadd", "-k", str(file), principal)
        return file

    def get_ticket(self, principal, keytab):
        """Get a ticket for a principal, as `kinit` does for a person."""
        self._run("kinit", "-k", "-t", str(keytab), principal)

    def drop_tickets(self):
        """Forget the tickets."""
        (self._home / "tickets").unlink(missing_ok=True)

    def _run(self, program, *arguments):
        subprocess.run(
            [self._program(program), *arguments], env=self._environment(), capture_output=True, check=True, timeout=60
        )

    def _program(self, name):
        return shutil.which(name, path=f"{_PROGRAMS.get(name, '')}:{os.environ['PATH']}")

    def _environment(self):
        return os.environ | self.environment | {"KRB5_KDC_PROFILE": str(self._home / "kdc.conf")}

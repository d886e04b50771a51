"""The routes by which people sign in, of the kind that is set (`web.sign_in`)."""

from importlib.util import find_spec

from fastapi import FastAPI

from streaming.base.errors import SettingsError
from streaming.base.sections.web import Web
from streaming.serve.web.access import Access
from streaming.serve.web.login import login_routes


def add_sign_in(app: FastAPI, access: Access, web: Web) -> None:
    """Add the routes to an application. Whom a proxy names needs none.

    Raises:
        SettingsError: the package for OIDC is not installed, or its settings can't be used.
    """
    if access.sign_in.kind == "token":
        app.include_router(login_routes(access))
    elif access.sign_in.kind == "oidc":
        if find_spec("authlib") is None:
            raise SettingsError(
                'web.sign_in.kind = "oidc" needs a package that is not installed here: install rebalance-watch[oidc].'
            )
        from streaming.serve.web.oidc import add_oidc

        add_oidc(app, access, web)

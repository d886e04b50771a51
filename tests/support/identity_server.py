"""The identity provider's server, of Authlib's server part.

Authlib checks the client, its secret, the redirect URI, the code and PKCE. On request the provider says what a client
must not accept: see `identity_provider.FAULTS`. ``python -m tests.support.identity_server`` prints its address.
"""

import json
import sys
import time
from dataclasses import dataclass, field
from html import escape

import flask
from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import ClientMixin
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import AuthorizationCodeMixin, OpenIDCode
from joserfc.jwk import RSAKey
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, PEOPLE


@dataclass
class _State:
    fault: str = ""
    codes: dict[str, "object"] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    used: list[str] = field(default_factory=list)


class Client(ClientMixin):
    def get_client_id(self):
        return CLIENT_ID

    def get_default_redirect_uri(self):
        return None

    def get_allowed_scope(self, scope):
        return scope

    def check_redirect_uri(self, redirect_uri):
        return redirect_uri.endswith("/login/callback")

    def check_client_secret(self, client_secret):
        return client_secret == CLIENT_SECRET

    def check_endpoint_auth_method(self, method, endpoint):
        return method == "client_secret_basic"

    def check_response_type(self, response_type):
        return response_type == "code"

    def check_grant_type(self, grant_type):
        return grant_type == "authorization_code"


@dataclass
class Code(AuthorizationCodeMixin):
    code: str
    redirect_uri: str
    subject: str
    scope: str
    nonce: str
    code_challenge: str
    code_challenge_method: str

    def get_redirect_uri(self):
        return self.redirect_uri

    def get_scope(self):
        return self.scope

    def get_nonce(self):
        return {"nonce": "of another sign-in", "no nonce": ""}.get(_STATE.fault, self.nonce)

    def get_auth_time(self):
        return None

    def get_acr(self):
        return None

    def get_amr(self):
        return None


class Grant(AuthorizationCodeGrant):
    def save_authorization_code(self, code, request):
        given = request.payload.data
        _STATE.used.append(given.get("nonce"))
        _STATE.codes[code] = Code(
            code, request.payload.redirect_uri, request.user, request.scope, given.get("nonce"),
            given["code_challenge"], given["code_challenge_method"],
        )  # fmt: skip

    def query_authorization_code(self, code, client):
        return _STATE.codes.get(code)

    def delete_authorization_code(self, authorization_code):
        del _STATE.codes[authorization_code.code]

    def authenticate_user(self, authorization_code):
        return authorization_code.subject


_STATE = _State()


class _Quiet(WSGIRequestHandler):
    def log_request(self, code="-", size="-"):
        """Print nothing."""


def main() -> None:
    """Serve until SIGTERM, by https if there are the files of a certificate and its key."""
    tls = (sys.argv[1], sys.argv[2]) if len(sys.argv) > 1 else None
    server = make_server("127.0.0.1", 0, _app(), threaded=True, request_handler=_Quiet, ssl_context=tls)
    # Another site than 127.0.0.1 for a browser, whatever the port.
    sys.stdout.write(f"{'http' if tls is None else 'https'}://localhost:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


def _app():  # noqa: C901  its routes
    """Create the application."""
    app, state = flask.Flask(__name__), _STATE
    keys = {"now": RSAKey.generate_key(2048, {"kid": "1", "use": "sig", "alg": "RS256"}), "other": None}

    class OpenId(OpenIDCode):
        def exists_nonce(self, nonce, request):
            return nonce in state.used

        def get_client_algorithm(self, client):
            return "none" if state.fault == "unsigned" else "RS256"

        def get_encode_header(self, client):
            return {
                "alg": self.get_client_algorithm(client),
                "kid": keys["former" if state.fault == "former key" else "now"].kid,
            }

        def resolve_client_private_key(self, client):
            if state.fault == "other key":
                keys["other"] = keys["other"] or RSAKey.generate_key(2048, {"kid": keys["now"].kid})
                return keys["other"]
            return keys["former" if state.fault == "former key" else "now"]

        def get_client_claims(self, client):
            now, claims = int(time.time()), {"iss": app.config["issuer"], "aud": [CLIENT_ID]}
            claims |= {
                "audience": {"aud": ["another"]},
                "azp": {"aud": ["another"], "azp": CLIENT_ID},
                "issuer": {"iss": "https://another.example"},
                "expired": {"iat": now - 7200, "exp": now - 3600},
            }.get(state.fault, {})
            return claims

        def generate_user_info(self, user, scope):
            said = PEOPLE[user]
            return {"sub": user} if state.fault == "userinfo" else {"sub": user, **said}

    server = AuthorizationServer()
    server.init_app(
        app,
        query_client=lambda client_id: Client() if client_id == CLIENT_ID else None,
        save_token=lambda token, request: state.tokens.update({token["access_token"]: request.user}),
    )
    server.register_grant(Grant, [OpenId(require_nonce=True), CodeChallenge(required=True)])

    @app.before_request
    def name():
        app.config["issuer"] = flask.request.host_url.rstrip("/")
        if state.fault == "down" and not flask.request.path.startswith("/test/"):
            return "out of order", 503
        return None

    @app.get("/.well-known/openid-configuration")
    def configuration():
        at = app.config["issuer"]
        wrong = {
            "script": {"end_session_endpoint": "javascript:alert(1)"},
            "file": {"authorization_endpoint": "file:///etc/passwd"},
            "keys in clear text": {"jwks_uri": "http://keys.example/jwks"},
            "userinfo in clear text": {"userinfo_endpoint": "http://people.example/userinfo"},
        }
        return {
            "issuer": "https://another.example" if state.fault == "other issuer" else at,
            "authorization_endpoint": f"{at}/authorize",
            "token_endpoint": f"{at}/token",
            "userinfo_endpoint": f"{at}/userinfo",
            "jwks_uri": f"{at}/jwks",
            "end_session_endpoint": f"{at}/end",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256", "none"],
            "code_challenge_methods_supported": ["S256"],
            **wrong.get(state.fault, {}),
        }

    @app.get("/jwks")
    def jwks():
        return {"keys": [keys["now"].as_dict(private=False)]}

    @app.route("/authorize", methods=["GET", "POST"])
    def authorize():
        if flask.request.args.get("code_challenge_method") != "S256":
            return "PKCE with S256 is required", 400
        try:
            grant = server.get_consent_grant(end_user=None)
        except OAuth2Error as error:
            return server.handle_error_response(None, error)
        subject = flask.request.form.get("subject")
        if subject is not None:
            return server.create_authorization_response(grant=grant, grant_user=subject or None)
        people = "".join(
            f'<button name="subject" value="{subject}">{escape(str(said["preferred_username"]))}</button>'
            for subject, said in PEOPLE.items()
        )
        return (
            f'<!doctype html><h1>Provider</h1><form method="post">{people}<button name="subject" value="">no</button>'
        )

    @app.post("/token")
    def token():
        if state.fault == "echo":
            return {"error": "invalid_client", "error_description": f"{CLIENT_SECRET} is wrong"}, 401
        answer = server.create_token_response()
        if state.fault == "no id token":
            answer.set_data(json.dumps({name: one for name, one in answer.get_json().items() if name != "id_token"}))
        return answer

    @app.get("/userinfo")
    def userinfo():
        subject = state.tokens.get(flask.request.headers.get("Authorization", "").removeprefix("Bearer "))
        return {"sub": subject, **PEOPLE[subject]} if subject else ("", 401)

    @app.get("/end")
    def end():
        given = flask.request.args
        is_ours = given.get("id_token_hint") and given.get("client_id") == CLIENT_ID
        return flask.redirect(given["post_logout_redirect_uri"]) if is_ours else ("Which session?", 400)

    @app.post("/test/fault")
    def fault():
        state.fault = flask.request.form["fault"]
        return ""

    @app.post("/test/rotate")
    def rotate():
        keys["former"], kid = keys["now"], str(int(keys["now"].kid) + 1)
        keys["now"] = RSAKey.generate_key(2048, {"kid": kid, "use": "sig", "alg": "RS256"})
        return ""

    return app


if __name__ == "__main__":
    main()

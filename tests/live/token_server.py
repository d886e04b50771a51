"""A token server of the test's own (OAuth 2.0, client credentials grant), whose tokens a Kafka can check."""

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

_KEY_ID = "lab"


class TokenServer:
    """Gives one client, who must name itself and its secret, signed tokens; runs within a with-block."""

    def __init__(self, client_id, secret):
        self._authorization = "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        self._subject = client_id
        self._key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"
        self.asked = 0

    def keys(self):
        """The JSON Web Key Set by which its tokens are checked."""
        numbers = self._key.public_key().public_numbers()
        return json.dumps(
            {
                "keys": [
                    {
                        "kty": "RSA",
                        "kid": _KEY_ID,
                        "use": "sig",
                        "alg": "RS256",
                        "n": _base64(numbers.n.to_bytes(256, "big")),
                        "e": _base64(numbers.e.to_bytes(3, "big")),
                    }
                ]
            }
        )

    def _handler(self):
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                server.asked += 1
                self.rfile.read(int(self.headers["Content-Length"]))
                is_authorized = self.headers["Authorization"] == server._authorization
                answer = server._token() if is_authorized else {"error": "invalid_client"}
                body = json.dumps(answer).encode()
                self.send_response(200 if is_authorized else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        return Handler

    def _token(self):
        now = int(time.time())
        claims = {"sub": self._subject, "iat": now, "exp": now + 600, "scope": "telemetry"}
        signed = ".".join(_base64(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": _KEY_ID}, claims))
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return {"access_token": f"{signed}.{_base64(signature)}", "token_type": "bearer", "expires_in": 600}

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


def _base64(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

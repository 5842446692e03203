"""Access tokens of an OAuth 2 endpoint, by client credentials (RFC 6749, section 4.4)."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from airflow_kafka_lake.core.errors import ConnectionSettingsError, UnavailableError

_TIMEOUT_SECONDS = 20.0
_LARGEST_ANSWER_BYTES = 1 << 20
_LIFETIME_SECONDS = 300
"""For an endpoint that says nothing of it (`expires_in` is only recommended)."""
_USED_SHARE = 0.8
"""The share of its lifetime after which a token is renewed: librdkafka and Java's client renew theirs then too."""
_WRONG_SETTINGS = frozenset({400, 401, 403, 404, 405})


class TokenEndpoint:
    """The token endpoint of a connection; threads may share it, and a token serves until it is time to renew it."""

    def __init__(
        self, *, connection: str, url: str, client: str, secret: str, scope: str, context: ssl.SSLContext | None
    ) -> None:
        self._connection, self._url, self._context = connection, url, context
        # RFC 6749, section 2.3.1: both are encoded as in a form before they become a user name and a password.
        login = ":".join(urllib.parse.quote_plus(text) for text in (client, secret))
        self._login = base64.b64encode(login.encode()).decode()
        self._form = urllib.parse.urlencode({"grant_type": "client_credentials", **({"scope": scope} if scope else {})})
        self._lock = threading.Lock()
        self._token, self._expires_at, self._renew_at = "", 0.0, 0.0

    def token(self) -> tuple[str, float]:
        """Return a token that is not yet due for renewal, and the time of its end in seconds since the epoch.

        Raises ConnectionSettingsError where the endpoint refuses the client or is none, UnavailableError where it
        does not answer. No message repeats an answer: it may hold a token.
        """
        with self._lock:
            if (now := time.time()) >= self._renew_at:
                self._token, seconds = self._ask()
                self._expires_at, self._renew_at = now + seconds, now + _USED_SHARE * seconds
            return self._token, self._expires_at

    def _ask(self) -> tuple[str, float]:
        """Return a new token and the seconds of its life."""
        request = urllib.request.Request(  # noqa: S310 -- the settings take http and https only
            self._url,
            data=self._form.encode(),
            headers={"Authorization": f"Basic {self._login}", "Accept": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS, context=self._context) as answer:  # noqa: S310
                document = json.loads(answer.read(_LARGEST_ANSWER_BYTES))
            return str(document["access_token"]), float(document.get("expires_in", _LIFETIME_SECONDS))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in _WRONG_SETTINGS:
                problem = "the token endpoint refuses the client's id and secret, or the scope"
                raise self._refused(f"{problem} (HTTP status {error.code})") from None
            raise UnavailableError(f"{self._named} answers with HTTP status {error.code}.") from None
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                problem = f"the token endpoint's certificate is not trusted ({error.reason.verify_message})"
                raise self._refused(f"{problem}; name who signed it in https.ca.location") from None
            raise UnavailableError(f"{self._named} does not answer: {error.reason}.") from None
        except OSError as error:
            raise UnavailableError(f"{self._named} does not answer: {type(error).__name__}.") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._refused("its answer holds no access_token: it is no OAuth 2 token endpoint") from None

    @property
    def _named(self) -> str:
        return f"The token endpoint of Kafka connection {self._connection!r}"

    def _refused(self, problem: str) -> ConnectionSettingsError:
        key = "sasl.oauthbearer.token.endpoint.url"
        return ConnectionSettingsError(
            f"Kafka connection {self._connection!r}, option {key!r}: {problem}.",
            connection=self._connection,
            option=key,
        )

"""Access tokens: their renewal, those of an OAuth 2 endpoint (RFC 6749, section 4.4), and those of Amazon's signer."""

from __future__ import annotations

import base64
import http.client
import json
import logging
import math
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request as web
from collections.abc import Callable

from airflow_kafka_lake.adapters.clients import CONNECT_SECONDS
from airflow_kafka_lake.core.errors import ConnectionSettingsError, LibraryError, UnavailableError

TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105
_TIMEOUT_SECONDS = 20.0
_LARGEST_ANSWER_BYTES = 1 << 20
_LIFETIME_SECONDS = 300
"""For an endpoint that says nothing of it (`expires_in` is only recommended)."""
_USED_SHARE = 0.8
"""The share of its life after which a token is renewed: librdkafka and Java's client of Kafka renew theirs then too."""
_WRONG_SETTINGS = {
    **dict.fromkeys((400, 401, 403), "the token endpoint refuses the client's id and secret, or the scope"),
    **dict.fromkeys((301, 302, 303, 307, 308, 404, 405), "no token endpoint is here, and no redirection is followed"),
}


def refusal(key: str, connection: str, problem: str) -> ConnectionSettingsError:
    """Return the refusal of an option of a Kafka connection."""
    return ConnectionSettingsError(
        f"Kafka connection {connection!r}, option {key!r}: {problem}.", connection=connection, option=key
    )


class Renewal:
    """The time to renew a token; threads may share it, and one of them asks. A server that is away then is asked again
    now and then, until the token ends."""

    def __init__(
        self, ask: Callable[[], object], away: tuple[type[Exception], ...], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask, self._away, self._now, self._lock = ask, away, now, threading.Lock()
        self._renew_at = self._ends_at = math.inf

    def begin(self, seconds: float) -> None:
        """Count the life of a new token from now."""
        self._renew_at, self._ends_at = (self._now() + seconds * share for share in (_USED_SHARE, 1))

    def renew_when_due(self) -> None:
        """Ask for the next token, whose answer begins its life; raises of `away` once the token has ended."""
        with self._lock:
            if self._now() >= self._renew_at:
                self._renew_at = min(self._now() + CONNECT_SECONDS, self._ends_at)
                try:
                    self._ask()
                except self._away:
                    if self._now() >= self._ends_at:
                        raise


class TokenEndpoint:
    """The token endpoint of a connection; threads may share it, and a token serves until it is time to renew it."""

    def __init__(
        self, *, connection: str, url: str, client: str, secret: str, scope: str, context: ssl.SSLContext | None
    ) -> None:
        self._connection, self._url, self._opener = connection, url, web.OpenerDirector()
        self._opener.add_handler(web.HTTPSHandler(context=context))
        # Not urllib's own handler of redirections, which takes the client's secret to whatever host they name.
        for handler in (web.ProxyHandler, web.HTTPHandler, web.HTTPErrorProcessor, web.HTTPDefaultErrorHandler):
            self._opener.add_handler(handler())
        # RFC 6749, section 2.3.1: both are encoded as in a form before they become a user name and a password.
        login = ":".join(urllib.parse.quote_plus(text) for text in (client, secret))
        self._login = base64.b64encode(login.encode()).decode()
        self._form = urllib.parse.urlencode({"grant_type": "client_credentials", **({"scope": scope} if scope else {})})
        self._token = "", 0.0
        self._renewal = Renewal(self._ask, (UnavailableError,), time.time)
        self._renewal.begin(0)

    def token(self) -> tuple[str, float]:
        """Return a token, and the time of its end in seconds since the epoch. Raises ConnectionSettingsError where the
        endpoint refuses the client or is none, UnavailableError where it does not answer; none repeats its answer."""
        self._renewal.renew_when_due()
        return self._token

    def _ask(self) -> None:
        """Take a new token."""
        request = web.Request(  # noqa: S310 -- the settings take http and https only
            self._url,
            data=self._form.encode(),
            headers={"Authorization": f"Basic {self._login}", "Accept": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                document = json.loads(answer.read(_LARGEST_ANSWER_BYTES))
            token, seconds = document["access_token"] + "", document.get("expires_in")
            seconds = float(_LIFETIME_SECONDS if seconds is None else seconds)
            self._token = token, time.time() + seconds
            self._renewal.begin(seconds)
        except urllib.error.HTTPError as error:
            error.close()
            if problem := _WRONG_SETTINGS.get(error.code):
                raise self._refused(f"{problem} (HTTP status {error.code})") from None
            raise UnavailableError(f"{self._named} answers with HTTP status {error.code}.") from None
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                problem = f"the token endpoint's certificate is not trusted ({error.reason.verify_message})"
                raise self._refused(f"{problem}; name who signed it in https.ca.location") from None
            raise UnavailableError(f"{self._named} does not answer: {error.reason}.") from None
        except OSError as error:
            raise UnavailableError(f"{self._named} does not answer: {type(error).__name__}.") from None
        except (http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
            raise self._refused("its answer holds no access_token: it is no OAuth 2 token endpoint") from None

    @property
    def _named(self) -> str:
        return f"The token endpoint of Kafka connection {self._connection!r}"

    def _refused(self, problem: str) -> ConnectionSettingsError:
        return refusal(TOKEN_URL, self._connection, problem)


def signed_token(connection: str, region: str) -> tuple[str, float]:
    """Return a token for Amazon's brokers in a region, and the time of its end in seconds since the epoch. It is signed
    with the AWS key of this process, which may change: none is kept. Raises LibraryError without the signer,
    ConnectionSettingsError without a key, UnavailableError where the server that has it does not answer."""
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
        from botocore import exceptions as aws
    except ImportError:
        raise LibraryError("Amazon's signer is missing. Run: pip install 'airflow-kafka-lake[msk]'") from None
    logging.getLogger("botocore.auth").setLevel(logging.INFO)  # below, it writes out each signed text
    told = f"Kafka connection {connection!r}: no AWS key is found"
    try:
        token, milliseconds = MSKAuthTokenProvider.generate_auth_token(region)
    except (aws.ConnectionError, aws.HTTPClientError) as error:
        raise UnavailableError(f"{told}, its server does not answer ({type(error).__name__}).") from None
    except (aws.BotoCoreError, aws.ClientError, AttributeError, ValueError) as error:
        # Without a key the signer breaks with an error of Python.
        why = f" ({type(error).__name__})" if isinstance(error, aws.BotoCoreError | aws.ClientError) else ""
        mend = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the machine a role."
        raise ConnectionSettingsError(f"{told}{why}.", connection=connection).mended_by(mend) from None
    return token, milliseconds / 1000

"""Authlib, an OAuth client that knows nothing of this switch, gets tokens in both ways and gives them
back. The member who lets it in uses the site's pages without a browser: forms as they stand there."""

import base64
import hashlib
import hmac
import re
import struct
import subprocess
import time
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
import requests
from authlib.common.security import generate_token
from authlib.integrations.base_client import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata, get_well_known_url
from bs4 import BeautifulSoup
from conftest import binary, run_json, running

REDIRECT = "https://books.example.com/callback?tenant=7"
ACCOUNTANT = "anna@example.com"
PASSWORD = "correct horse battery"


class Site:
    """A member at the site's pages."""

    def __init__(self, base: str):
        self.base = base
        self.session = requests.Session()

    def submit(self, page, pressed: dict | None = None, **fields) -> requests.Response:
        """Sends the form of a page with what is filled in; follows nothing outside of the site."""
        form = BeautifulSoup(page.text, "html.parser").select_one("main form[method=post]")
        values = {
            field["name"]: field.get("value", "")
            for field in form.find_all("input")
            if field.get("name") and field.get("type") != "radio"
        }
        unknown = fields.keys() - values.keys()
        assert not unknown, f"{unknown} stand in no form of {page.url}"
        target = urljoin(page.url, form.get("action") or page.url)
        headers = {"Origin": self.base}
        data = values | fields | (pressed or {})
        answer = self.session.post(target, data=data, headers=headers, allow_redirects=False)
        return self.follow(answer)

    def follow(self, answer) -> requests.Response:
        """Goes on as far as the site sends its visitor around within itself."""
        while (target := forward_of(answer)) and target.startswith(self.base):
            answer = self.session.get(target, allow_redirects=False)
        return answer

    def get(self, address: str) -> requests.Response:
        return self.follow(self.session.get(urljoin(self.base, address), allow_redirects=False))

    def sign_in(self, page) -> requests.Response:
        return self.submit(page, email=ACCOUNTANT, password=PASSWORD)


def forward_of(answer) -> str | None:
    """Where an answer sends its reader: by its head, or by a page that says so."""
    if answer.is_redirect:
        return urljoin(answer.url, answer.headers["location"])
    page = BeautifulSoup(answer.text, "html.parser")
    if not page.find("meta", attrs={"http-equiv": "refresh"}):
        return None
    return urljoin(answer.url, page.find("a", string="Continue")["href"])


def one_time_code(key: str, steps_ahead: int = 0) -> str:
    """RFC 6238, written again."""
    seed = base64.b32decode(key + "=" * (-len(key) % 8))
    step = int(time.time()) // 30 + steps_ahead
    digest = hmac.new(seed, struct.pack(">Q", step), hashlib.sha1).digest()
    at = digest[-1] & 15
    return f"{(struct.unpack('>I', digest[at : at + 4])[0] & 0x7FFFFFFF) % 1_000_000:06}"


class Stage:
    """A running switch, an app, and a member who keeps the books."""

    def __init__(self, switch, app: dict):
        self.base = f"http://{switch.http}"
        self.token_url = f"{self.base}/v1/oauth/token"
        self.switch = switch
        self.app = app

    def client(self, **options) -> OAuth2Session:
        return OAuth2Session(self.app["client_id"], self.app["client_secret"], **options)

    def let_in(self, address: str, decision: str) -> str:
        """Where the app's user arrives after signing in and deciding."""
        site = Site(self.base)
        login = site.get(address)
        assert "/login" in login.url
        consent = site.sign_in(login)
        assert "Books" in consent.text
        arrived = forward_of(site.submit(consent, pressed={"decision": decision}))
        assert arrived, "the member is sent on to the app"
        return arrived


@pytest.fixture
def stage(tmp_path):
    app = {}

    def prepare(data, made):
        company = ["--data", data, "--company", made["company_id"]]
        subprocess.run(
            [binary(), "user", "add", *company, "--email", ACCOUNTANT, "--first-name", "Anna"]
            + ["--last-name", "Byron", "--role", "accountant", "--password-stdin"],
            input=PASSWORD.encode(),
            check=True,
            stdout=subprocess.DEVNULL,
        )
        redirect = ["--name", "Books", "--redirect-url", REDIRECT]
        app.update(run_json("app", "add", *company, *redirect))

    with running(tmp_path, prepare=prepare) as switch:
        yield Stage(switch, app)


def test_a_code_is_exchanged_used_and_revoked(stage):
    client = stage.client(
        scope="accountant", redirect_uri=REDIRECT, code_challenge_method="S256"
    )
    verifier = generate_token(48)
    authorize = f"{stage.base}/v1/oauth/authorize"
    address, state = client.create_authorization_url(authorize, code_verifier=verifier)
    arrived = stage.let_in(address, "allow")
    assert arrived.startswith(REDIRECT + "&code=")
    token = client.fetch_token(
        stage.token_url, authorization_response=arrived, state=state, code_verifier=verifier
    )
    assert token["token_type"] == "Bearer"
    assert token["scope"] == ["accountant"]
    assert set(token) == {"access_token", "token_type", "scope"}

    company = client.get(f"{stage.base}/v1/company")
    assert company.json()["id"] == stage.switch.credentials["company_id"]
    made = client.post(f"{stage.base}/v1/categories", json={"name": "Travel"})
    assert made.status_code == 201
    assert client.get(f"{stage.base}/v1/shared-links").status_code == 403

    revoked = client.revoke_token(f"{stage.token_url}/revoke")
    assert (revoked.status_code, revoked.json()) == (200, {})
    assert client.get(f"{stage.base}/v1/company").status_code == 401


def test_a_code_that_is_replayed_takes_its_token_back(stage):
    client = stage.client(redirect_uri=REDIRECT)
    address, state = client.create_authorization_url(f"{stage.base}/v1/oauth/authorize")
    arrived = stage.let_in(address, "allow")
    client.fetch_token(stage.token_url, authorization_response=arrived, state=state)
    assert client.get(f"{stage.base}/v1/company").status_code == 200
    with pytest.raises(OAuthError, match="invalid_grant"):
        stage.client(redirect_uri=REDIRECT).fetch_token(
            stage.token_url, authorization_response=arrived, state=state
        )
    assert client.get(f"{stage.base}/v1/company").status_code == 401


def test_who_declines_is_sent_back_with_the_reason(stage):
    client = stage.client(redirect_uri=REDIRECT)
    address, state = client.create_authorization_url(f"{stage.base}/v1/oauth/authorize")
    arrived = parse_qs(urlsplit(stage.let_in(address, "decline")).query)
    assert arrived["error"] == ["access_denied"]
    assert arrived["error_description"] == ["The request was declined"]
    assert arrived["state"] == [state] and arrived["tenant"] == ["7"]
    with pytest.raises(OAuthError):
        client.fetch_token(
            stage.token_url, authorization_response=f"{REDIRECT}&code=x&state={state}", state=state
        )


def test_an_address_that_only_looks_alike_stays_on_a_page(stage):
    for look_alike in [REDIRECT + "&x=1", REDIRECT.upper(), REDIRECT + "#", "https://evil.example"]:
        client = stage.client(redirect_uri=look_alike)
        address, _ = client.create_authorization_url(f"{stage.base}/v1/oauth/authorize")
        page = requests.get(address, allow_redirects=False)
        assert page.status_code == 400 and "location" not in page.headers
        assert "evil.example" not in page.text


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_password_gives_a_token_that_reads(stage, method):
    client = stage.client(token_endpoint_auth_method=method, revocation_endpoint_auth_method=method)
    token = client.fetch_token(stage.token_url, username=ACCOUNTANT, password=PASSWORD)
    assert (token["token_type"], token["scope"]) == ("Bearer", [])
    assert client.get(f"{stage.base}/v1/company").status_code == 200
    made = client.post(f"{stage.base}/v1/categories", json={"name": "Travel"})
    assert made.status_code == 403
    assert client.revoke_token(f"{stage.token_url}/revoke").status_code == 200
    assert client.get(f"{stage.base}/v1/company").status_code == 401
    with pytest.raises(OAuthError, match="invalid_grant"):
        stage.client().fetch_token(stage.token_url, username=ACCOUNTANT, password="wrong")
    with pytest.raises(OAuthError, match="invalid_scope"):
        stage.client(scope="admin").fetch_token(
            stage.token_url, username=ACCOUNTANT, password=PASSWORD
        )


def test_questions_follow_a_password(stage):
    site = Site(stage.base)
    site.sign_in(site.get("/login"))
    page = site.get("/account/totp")
    key = re.sub(r"\s", "", BeautifulSoup(page.text, "html.parser").find(class_="secret").text)
    used = one_time_code(key)
    site.submit(page, code=used, password=PASSWORD)

    client = stage.client()
    token = client.fetch_token(stage.token_url, username=ACCOUNTANT, password=PASSWORD)
    challenge_url = token["challenge"]["url"]
    assert token["challenge"]["key"] == "totp"
    assert client.get(f"{stage.base}/v1/company").status_code == 401
    assert client.get(challenge_url).json() == token["challenge"]
    for wrong in ["no code", used]:
        told = client.post(challenge_url, json={"answer": wrong})
        assert (told.status_code, told.json()["error"]) == (403, "access_denied")
    # The code that set it up was used up by that; the one after it is taken already.
    right = client.post(challenge_url, json={"answer": one_time_code(key, steps_ahead=1)})
    assert (right.status_code, right.json()["access_token"]) == (200, token["access_token"])
    assert client.get(f"{stage.base}/v1/company").status_code == 200


def test_a_client_finds_the_server_by_its_metadata(stage):
    """RFC 8414 as Authlib checks it, and RFC 9207: the answer names the server that the metadata does."""
    found = requests.get(get_well_known_url(stage.base, external=True))
    metadata = AuthorizationServerMetadata(found.json())
    # Where a switch runs on this machine it has no TLS, which is all that Authlib may object to.
    secure = {
        key: value.replace("http://", "https://") if isinstance(value, str) else value
        for key, value in found.json().items()
    }
    AuthorizationServerMetadata(secure).validate()
    assert metadata["issuer"] == stage.base
    client = stage.client(redirect_uri=REDIRECT, code_challenge_method="S256")
    verifier = generate_token(48)
    endpoint = metadata["authorization_endpoint"]
    address, state = client.create_authorization_url(endpoint, code_verifier=verifier)
    arrived = stage.let_in(address, "allow")
    assert parse_qs(urlsplit(arrived).query)["iss"] == [metadata["issuer"]]
    assert metadata["authorization_response_iss_parameter_supported"]
    token = client.fetch_token(
        metadata["token_endpoint"], authorization_response=arrived, state=state,
        code_verifier=verifier,
    )
    revoked = client.revoke_token(metadata["revocation_endpoint"], token["access_token"])
    assert revoked.status_code == 200
    refused = stage.let_in(
        client.create_authorization_url(endpoint, code_verifier=verifier)[0], "decline"
    )
    assert parse_qs(urlsplit(refused).query)["iss"] == [metadata["issuer"]]

"""Issue 3, number 7: what two parsers could read differently is refused on every port of every program, the connection is
closed, and what stands behind it is not executed; forged tokens are worth nothing."""
import base64
import hashlib
import hmac
import json
import os
import pathlib
import re
import tempfile
import time
import uuid

import client
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from services import wait_for
from system import System

# Each with the good parts filled in: T target, H the other headers of a good request, B its body, L the body's length,
# C the body as one chunk. What is wrong is written out. Unless said otherwise the answer is 400.
BAD = {
    "both lengths": b"POST T HTTP/1.1\r\nHost: a\r\nHContent-Length: L\r\nTransfer-Encoding: chunked\r\n\r\nC",
    "both lengths, other order": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: chunked\r\nContent-Length: L\r\n\r\nC",
    "differing lengths": b"POST T HTTP/1.1\r\nHost: a\r\nHContent-Length: L\r\nContent-Length: 3\r\n\r\nB",
    "the same length twice": b"POST T HTTP/1.1\r\nHost: a\r\nHContent-Length: L\r\nContent-Length: L\r\n\r\nB",
    "a list of lengths": b"POST T HTTP/1.1\r\nHost: a\r\nHContent-Length: L, L\r\n\r\nB",
    "length with plus": b"POST T HTTP/1.1\r\nHost: a\r\nHContent-Length: +L\r\n\r\nB",
    "length with minus": b"POST T HTTP/1.1\r\nHost: a\r\nHContent-Length: -L\r\n\r\nB",
    "hexadecimal length": b"POST T HTTP/1.1\r\nHost: a\r\nHContent-Length: 0x24\r\n\r\nB",
    "length with underscore": b"POST T HTTP/1.1\r\nHost: a\r\nHContent-Length: 3_6\r\n\r\nB",
    "length beyond 64 bit": b"POST T HTTP/1.1\r\nHost: a\r\nHContent-Length: 18446744073709551652\r\n\r\nB",
    "length with a space inside": b"POST T HTTP/1.1\r\nHost: a\r\nHContent-Length: 3 6\r\n\r\nB",
    "empty length": b"POST T HTTP/1.1\r\nHost: a\r\nHContent-Length:\r\n\r\nB",
    "length with a leading zero": b"POST T HTTP/1.1\r\nHost: a\r\nHContent-Length: 0L\r\n\r\nB",
    "space before the length's colon": b"POST T HTTP/1.1\r\nHost: a\r\nHContent-Length : L\r\n\r\nB",
    "xchunked (501)": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: xchunked\r\n\r\nC",
    "chunked, identity": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: chunked, identity\r\n\r\nC",
    "identity, chunked": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: identity, chunked\r\n\r\nC",
    "chunked twice": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\nC",
    "identity (501)": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: identity\r\n\r\nC",
    "quoted chunked": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: \"chunked\"\r\n\r\nC",
    "chunked with a parameter": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: chunked;a=b\r\n\r\nC",
    "chunked and a comma": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: chunked,\r\n\r\nC",
    "vertical tab before chunked": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding:\x0bchunked\r\n\r\nC",
    "space before the coding's colon": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding : chunked\r\n\r\nC",
    "folded coding": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding:\r\n chunked\r\n\r\nC",
    "chunked in HTTP/1.0": b"POST T HTTP/1.0\r\nHost: a\r\nHTransfer-Encoding: chunked\r\n\r\nC",
    "chunk size with plus": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: chunked\r\n\r\n+24\r\nB\r\n0\r\n\r\n",
    "chunk size with 0x": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: chunked\r\n\r\n0x24\r\nB\r\n0\r\n\r\n",
    "chunk size with underscore": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: chunked\r\n\r\n2_4\r\nB\r\n0\r\n\r\n",
    "chunk size beyond 64 bit": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: chunked\r\n\r\n10000000000000024\r\nB\r\n0\r\n\r\n",
    "empty chunk size": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: chunked\r\n\r\n\r\nB\r\n0\r\n\r\n",
    "chunk size ended by LF": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: chunked\r\n\r\n24\nB\r\n0\r\n\r\n",
    "chunk longer than its size": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: chunked\r\n\r\n5\r\nB\r\n0\r\n\r\n",
    "LF in a chunk extension": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: chunked\r\n\r\n24;a\nb\r\nB\r\n0\r\n\r\n",
    "trailer": b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n",
    "folded header": b"POST T HTTP/1.1\r\nHost: a\r\nHX-A: b\r\n c\r\nContent-Length: L\r\n\r\nB",
    "bare CR in a value": b"POST T HTTP/1.1\r\nHost: a\r\nHX-A: b\rX-B: c\r\nContent-Length: L\r\n\r\nB",
    "bare LF between headers": b"POST T HTTP/1.1\r\nHost: a\r\nHX-A: b\nContent-Length: L\r\n\r\nB",
    "bare LF everywhere": b"POST T HTTP/1.1\nHost: a\nContent-Length: L\n\nB",
    "NUL in a value": b"POST T HTTP/1.1\r\nHost: a\r\nHX-A: b\0\r\nContent-Length: L\r\n\r\nB",
    "control character in a name": b"POST T HTTP/1.1\r\nHost: a\r\nHX\x08A: b\r\nContent-Length: L\r\n\r\nB",
    "space in a name": b"POST T HTTP/1.1\r\nHost: a\r\nHX A: b\r\nContent-Length: L\r\n\r\nB",
    "no colon": b"POST T HTTP/1.1\r\nHost: a\r\nHX-A\r\nContent-Length: L\r\n\r\nB",
    "empty name": b"POST T HTTP/1.1\r\nHost: a\r\nH: b\r\nContent-Length: L\r\n\r\nB",
    "no Host": b"POST T HTTP/1.1\r\nHContent-Length: L\r\n\r\nB",
    "two Hosts": b"POST T HTTP/1.1\r\nHost: a\r\nHost: b\r\nHContent-Length: L\r\n\r\nB",
    "ill-formed Host": b"POST T HTTP/1.1\r\nHost: a/b\r\nHContent-Length: L\r\n\r\nB",
    "Host with a user": b"POST T HTTP/1.1\r\nHost: u@a\r\nHContent-Length: L\r\n\r\nB",
    "empty Host": b"POST T HTTP/1.1\r\nHost:\r\nHContent-Length: L\r\n\r\nB",
    "HTTP/1.2 (505)": b"POST T HTTP/1.2\r\nHost: a\r\nHContent-Length: L\r\n\r\nB",
    "HTTP/0.9 (505)": b"POST T HTTP/0.9\r\nHost: a\r\nHContent-Length: L\r\n\r\nB",
    "lower-case version": b"POST T http/1.1\r\nHost: a\r\nHContent-Length: L\r\n\r\nB",
    "space behind the version": b"POST T HTTP/1.1 \r\nHost: a\r\nHContent-Length: L\r\n\r\nB",
    "two spaces": b"POST  T HTTP/1.1\r\nHost: a\r\nHContent-Length: L\r\n\r\nB",
    "leading space": b" POST T HTTP/1.1\r\nHost: a\r\nHContent-Length: L\r\n\r\nB",
    "lower-case method (501)": b"post T HTTP/1.1\r\nHost: a\r\nHContent-Length: L\r\n\r\nB",
    "unknown method (501)": b"SUMMON T HTTP/1.1\r\nHost: a\r\nHContent-Length: L\r\n\r\nB",
    "another absolute target": b"POST http://b.example/x HTTP/1.1\r\nHost: a\r\nHContent-Length: L\r\n\r\nB",
    "fragment": b"POST T#x HTTP/1.1\r\nHost: a\r\nHContent-Length: L\r\n\r\nB",
    "CONNECT": b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n",
    "HTTP/2 preface (505)": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}
assert len(BAD) >= 45


def fill(raw, target, headers, body):
    lines = "".join(f"{k}: {v}\r\n" for k, v in headers.items()).encode()
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    # In one pass, so that what was filled in is not filled again. A letter stands for itself where a word goes on.
    parts = {b"T": target.encode(), b"H": lines, b"B": body, b"L": b"%d" % len(body), b"C": chunk}
    return re.sub(rb"(?<![A-Za-z])T(?![A-Za-z])|(?<=\n)H(?=[A-Z :])|(?<=[ +0-])L(?=[\r\n,])|(?<=\n)[BC](?=$|\r)",
                  lambda m: parts[m[0]], raw)


def ports(s):
    return [("api", "api"), ("api", "admin"), ("query", "query"), ("query", "admin"), ("worker", "admin")]


def test_malformed_and_smuggled_requests_on_every_port():
    with System() as s:
        item = s.item(stock=1000)
        refused = 0
        for part, port in ports(s):
            program = getattr(s, part)
            number = program.ports[port]
            buys = (part, port) == ("api", "api")
            target = "/v1/orders" if buys else "/livez" if port == "admin" else f"/v1/activities/{item.activity}/skus/{item.sku}"
            for name, raw in BAD.items():
                headers = {"Authorization": f"Bearer {s.token(1)}", "Idempotency-Key": str(uuid.uuid4()),
                           "Content-Type": "application/json"} if buys else {}
                behind = s.order_request(item, 2) if buys else client.request("GET", target)
                expected = int(name[-4:-1]) if name.endswith(")") else 400
                with client.Connection(number) as c:
                    c.send(fill(raw, target, headers, item.body) + behind)
                    answer = c.answer()
                    assert answer.status == expected, f"{part} {port}: {name}: {answer}"
                    assert answer.closes, name
                    assert answer.headers["content-type"] == "application/problem+json", name
                    assert c.rest() == b"", f"{part} {port}: {name}: a second answer"
                refused += 1
            # Good ones, also those that look odd, are not harmed.
            with client.Connection(number) as c:
                for data in (client.request("GET", target), b"\r\n" + client.request("GET", target),
                             client.request("GET", target, host="a:65535"), client.request("GET", target, host="[::1]:80")):
                    c.send(data)
                    assert c.answer().status == (405 if buys else 200)
        assert item.books()["seq"] == 1, "something was bought"
        good = fill(b"POST T HTTP/1.1\r\nHost: a\r\nHTransfer-Encoding: CHUNKED\r\n\r\nC", "/v1/orders",
                    {"Authorization": f"Bearer {s.token(3)}", "Idempotency-Key": str(uuid.uuid4()),
                     "Content-Type": "application/json"}, item.body)
        with client.Connection(s.api.ports["api"]) as c:
            c.send(good + s.order_request(item, 4))
            assert [c.answer().status, c.answer().status] == [202, 202]
        print(f"{refused} of {refused} refused")


def test_too_much_on_every_port():
    """Bounded by configuration: the header, the body, the target, the number of headers, the time."""
    with System({"http.header_timeout": "300ms", "http.read_timeout": "300ms"}) as s:
        item = s.item(stock=10)
        for part, port in ports(s):
            number = getattr(s, part).ports[port]
            for expected, data in ((414, client.request("GET", "/" + "a" * 20000)),
                                   (431, client.request("GET", "/livez", {"X-A": "b" * 20000})),
                                   (431, client.request("GET", "/livez", {f"X-{n}": "b" for n in range(200)})),
                                   (413, client.request("POST", "/v1/orders", {}, b"x" * 5000)),
                                   (408, b"GET /livez HTTP/1.1\r\nHost: a\r\n")):
                with client.Connection(number) as c:
                    c.send(data)
                    answer = c.answer()
                    assert (answer.status, answer.closes) == (expected, True), f"{part} {port}: {answer}"
                    c.rest()
        assert item.books()["seq"] == 1


# --- tokens ---

def b64(data):
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else json.dumps(data).encode()).rstrip(b"=").decode()


def signed(header, payload, secret, digest=hashlib.sha256):
    text = f"{header if isinstance(header, str) else b64(header)}.{payload if isinstance(payload, str) else b64(payload)}"
    return f"{text}.{b64(hmac.new(secret, text.encode(), digest).digest())}"


def pem(key):
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture(scope="module")
def keys():
    """Private keys; the public ones in files."""
    with tempfile.TemporaryDirectory(prefix="sk-", dir="/tmp") as directory:
        yield make_keys(pathlib.Path(directory))


def make_keys(d):
    made = {"rs": rsa.generate_private_key(65537, 2048), "es": ec.generate_private_key(ec.SECP256R1())}
    for name, key in made.items():
        (d / name).write_bytes(pem(key.public_key()))
    (d / "hs").write_bytes(os.urandom(32))
    return {**made, "dir": d, "hs": (d / "hs").read_bytes(),
            "setting": f"hs=HS256:{d}/hs,rs=RS256:{d}/rs,es=ES256:{d}/es"}


def attacks(keys):
    now = int(time.time())
    good = {"sub": "7", "iss": "seckill-test", "aud": "seckill-test", "iat": now - 1, "nbf": now - 1, "exp": now + 3600}
    hs, rs, es = keys["hs"], keys["rs"], keys["es"]
    head = {"alg": "HS256", "typ": "JWT", "kid": "hs"}

    def claims(**change):
        return signed(head, {k: v for k, v in {**good, **change}.items() if v is not None}, hs)

    right = claims()
    h, p, sig = right.split(".")
    for none in ("none", "None", "NONE", "nOnE", ""):
        yield f"alg {none!r}", f"{b64({**head, 'alg': none})}.{p}."
        yield f"alg {none!r} with a signature", f"{b64({**head, 'alg': none})}.{p}.{sig}"
    yield "no signature", f"{h}.{p}."
    yield "two parts", f"{h}.{p}"
    yield "four parts", f"{right}.{sig}"
    yield "another's signature", f"{h}.{claims(sub='8').split('.')[1]}.{sig}"
    yield "a cut signature", right[:-4]
    yield "another secret", signed(head, good, b"x" * 32)
    yield "an empty secret", signed(head, good, b"")
    # Algorithm confusion: the public key is known to everybody.
    for name in ("rs", "es"):
        public = pem(keys[name].public_key())
        for secret in (public, public.strip()):
            yield f"{name}'s public key as HMAC secret", signed({"alg": "HS256", "kid": name}, good, secret)
            yield f"{name}'s public key as HMAC secret, kid hs", signed({"alg": "HS256", "kid": "hs"}, good, secret)
    yield "RS256 under hs", jwt.encode(good, rs, "RS256", {"kid": "hs"})
    yield "ES256 under rs", jwt.encode(good, es, "ES256", {"kid": "rs"})
    yield "RS512 under rs", jwt.encode(good, rs, "RS512", {"kid": "rs"})
    yield "PS256 under rs", jwt.encode(good, rs, "PS256", {"kid": "rs"})
    yield "HS512 under hs", signed({**head, "alg": "HS512"}, good, hs, hashlib.sha512)
    yield "ES256 of zeros", f"{b64({'alg': 'ES256', 'kid': 'es'})}.{p}.{b64(bytes(64))}"
    yield "lower-case alg", signed({**head, "alg": "hs256"}, good, hs)
    yield "no alg", signed({"kid": "hs"}, good, hs)
    # Keys that the token brings along.
    mine = rsa.generate_private_key(65537, 2048)
    n = mine.public_key().public_numbers().n
    jwk = {"kty": "RSA", "e": "AQAB", "n": b64(n.to_bytes(256, "big"))}
    yield "embedded key", jwt.encode(good, mine, "RS256", {"jwk": jwk})
    yield "embedded key, kid rs", jwt.encode(good, mine, "RS256", {"jwk": jwk, "kid": "rs"})
    for name in ("jku", "x5u"):
        yield name, jwt.encode(good, mine, "RS256", {name: "http://127.0.0.1:1/keys", "kid": "mine"})
    yield "unknown kid", signed({**head, "kid": "nobody"}, good, hs)
    yield "kid that is a path", signed({**head, "kid": "../../../../dev/null"}, good, b"")
    yield "crit", signed({**head, "crit": ["b64"], "b64": False}, good, hs)
    # Claims.
    yield "expired", claims(exp=now - 1)
    yield "no exp", claims(exp=None)
    yield "exp as text", claims(exp=str(now + 3600))
    yield "not yet valid", claims(nbf=now + 600)
    yield "wrong audience", claims(aud="somebody")
    yield "no audience", claims(aud=None)
    yield "wrong issuer", claims(iss="somebody")
    yield "no issuer", claims(iss=None)
    for sub in (None, "", "0", "-7", "+7", "07", "7.0", "7e0", " 7", "7 ", "9223372036854775808", "x", ["7"], True):
        yield f"sub {sub!r}", claims(sub=sub)
    twice = b64(json.dumps(good)[:-1].encode() + b',"sub":"8"}')
    yield "a claim twice", signed(head, twice, hs)
    yield "alg twice", signed(b64(b'{"alg":"none","kid":"hs","alg":"HS256"}'), good, hs)
    yield "data behind the claims", signed(head, b64(json.dumps(good).encode() + b"x"), hs)
    yield "padding", f"{h}.{p}.{sig}="
    yield "standard base64", f"{h}.{p}.{sig}+/"
    yield "JWE", f"{h}....{sig}"


def test_jwt_attacks(keys):
    with System({"auth.keys": keys["setting"]}) as s:
        item = s.item(stock=1000)
        number = s.api.ports["api"]
        target = f"/v1/activities/{item.activity}/skus/{item.sku}/requests/{uuid.uuid4()}"
        tried = 0
        for name, token in attacks(keys):
            with client.Connection(number) as c:
                c.send(s.order_request(item, 7, token=token))
                answer = c.answer()
            assert (answer.status, answer.code) == (401, "UNAUTHENTICATED"), f"{name}: {answer}"
            assert answer.headers["www-authenticate"].startswith("Bearer"), name
            answer = client.get(s.query.ports["query"], target, {"Authorization": f"Bearer {token}"})
            assert answer.status == 401, f"{name}: {answer}"
            tried += 1
        # Oversize: refused wherever the bound is, and never an answer of the application.
        big = s.token(7, key=keys["hs"], headers={"kid": "hs"}, padding="x" * 4500)
        assert client.get(s.query.ports["query"], target, {"Authorization": f"Bearer {big}"}).status == 401
        huge = s.token(7, key=keys["hs"], headers={"kid": "hs"}, padding="x" * 45000)
        assert client.get(s.query.ports["query"], target, {"Authorization": f"Bearer {huge}"}).status == 431
        for scheme in ("", "Basic Nzo4", "bearer", "Bearer", "Bearer  "):
            with client.Connection(number) as c:
                headers = {"Idempotency-Key": str(uuid.uuid4()), "Content-Type": "application/json"}
                if scheme:
                    headers["Authorization"] = scheme
                assert c.ask("POST", "/v1/orders", headers, item.body).status == 401
        assert item.books()["seq"] == 1, "something was bought"
        assert tried >= 60
        # The good ones, of each algorithm.
        for user, name in ((1, "hs"), (2, "rs"), (3, "es")):
            token = s.token(user, key=keys[name], algorithm=f"{name.upper()}256", headers={"kid": name})
            with client.Connection(number) as c:
                c.send(s.order_request(item, user, token=token))
                assert c.answer().status == 202, name


def test_a_remembered_token_still_expires():
    """The cache of verified tokens spares the signature, not the time."""
    with System() as s:
        item = s.item(stock=10)
        token = s.token(7, exp=int(time.time()) + 2)
        key = str(uuid.uuid4())
        with client.Connection(s.api.ports["api"]) as c:
            def ask():
                c.send(s.order_request(item, 7, key, token=token))
                return c.answer().status
            assert [ask(), ask(), ask()] == [202] * 3
            wait_for("the token to expire", lambda: ask() == 401)

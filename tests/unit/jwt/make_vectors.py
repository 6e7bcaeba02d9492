#!/usr/bin/python3
"""Writes vectors/: public keys, a shared secret and tokens made by PyJWT, another implementation than ours.

Each line of tokens.txt: key id, "good" or "bad", token. The private keys are thrown away; run it again for new ones.
"""
import pathlib
import secrets

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

NOW = 1782388800
out = pathlib.Path(__file__).parent / "vectors"


def pem(key):
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


secret = secrets.token_bytes(48)
rsa_key = rsa.generate_private_key(65537, 2048)
rsa_3072 = rsa.generate_private_key(65537, 3072)
ec_key = ec.generate_private_key(ec.SECP256R1())
(out / "h.key").write_bytes(secret)
(out / "r.pem").write_bytes(pem(rsa_key))
(out / "r3.pem").write_bytes(pem(rsa_3072))
(out / "e.pem").write_bytes(pem(ec_key))
(out / "rsa1024.pem").write_bytes(pem(rsa.generate_private_key(65537, 1024)))
(out / "p384.pem").write_bytes(pem(ec.generate_private_key(ec.SECP384R1())))
(out / "secp256k1.pem").write_bytes(pem(ec.generate_private_key(ec.SECP256K1())))
(out / "short.key").write_bytes(secrets.token_bytes(31))

keys = {"h": (secret, "HS256"), "r": (rsa_key, "RS256"), "r3": (rsa_3072, "RS256"), "e": (ec_key, "ES256")}
good = {"iss": "seckill", "aud": "seckill", "sub": "3001", "exp": NOW + 3600}
lines = []


def add(kid, expected, claims, alg=None, key=None, **headers):
    k, a = keys[kid]
    token = jwt.encode(claims, key or k, algorithm=alg or a, headers={"kid": kid, **headers})
    lines.append(f"{kid} {expected} {token}")


for kid in keys:
    add(kid, "good", good)
    add(kid, "good", {**good, "iat": NOW, "nbf": NOW, "jti": "x", "scope": ["a", {"b": None}]})
    add(kid, "good", {**good, "aud": ["other", "seckill"]})
    add(kid, "good", {**good, "exp": NOW + 1.5})
    add(kid, "good", good, typ="at+jwt")
    add(kid, "bad", {**good, "exp": NOW})
    add(kid, "bad", {**good, "nbf": NOW + 1})
    add(kid, "bad", {**good, "iss": "other"})
    add(kid, "bad", {**good, "aud": ["other"]})
    add(kid, "bad", {k: v for k, v in good.items() if k != "exp"})
    add(kid, "bad", good, crit=["exp"])
    add(kid, "bad", good, jwk={"kty": "oct", "k": "AA"})
for _ in range(48):  # r and s with leading zeros and with their highest bit set
    add("e", "good", {**good, "jti": secrets.token_hex(4)})
for alg in ("HS384", "HS512"):
    add("h", "bad", good, alg=alg)
for alg in ("RS384", "RS512", "PS256"):
    add("r", "bad", good, alg=alg)
add("e", "bad", good, alg="ES384", key=ec.generate_private_key(ec.SECP384R1()))
add("e", "bad", good, key=ec.generate_private_key(ec.SECP256R1()))
add("r", "bad", good, key=rsa.generate_private_key(65537, 2048))
(out / "tokens.txt").write_text("\n".join(lines) + "\n")

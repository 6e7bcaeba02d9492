/* Keys made for this run, and tokens signed in every way that a verifier should meet. */
#pragma once

#include "adapter/jwt/jwt.h"

#define NOW INT64_C(1782388800)
#define GOOD_CLAIMS "{\"iss\":\"seckill\",\"aud\":\"seckill\",\"sub\":\"3001\",\"exp\":1782392400}"

enum signer {
    SIGN_HS,          /* key "h" */
    SIGN_RS,          /* key "r" */
    SIGN_ES,          /* key "e" */
    SIGN_NOTHING,     /* an empty signature */
    SIGN_EMPTY_KEY,   /* HMAC with a key of no bytes */
    SIGN_RSA_AS_HMAC, /* HMAC with the text of r.pem */
    SIGN_EC_AS_HMAC,  /* HMAC with the text of e.pem */
    SIGN_RS_PSS,      /* key "r", another padding */
    SIGN_RS_SHA512,   /* key "r", another hash */
    SIGN_ES_DER,      /* key "e", not in JWS form */
    SIGN_P384,        /* another curve */
};

/* "h=HS256:…,r=RS256:…,e=ES256:…" over files in a directory of this run's own. */
int token_setup(void **state);
int token_teardown(void **state);
const char *token_key_dir(void);
struct jwt_keys *token_keys(void);

/* Zero-terminated, on the heap. */
char *token_make(enum signer signer, const char *header, const char *claims);
/* header.claims, with these bytes as the signature. */
char *token_with(const char *header, const char *claims, const void *sig, size_t n);
/* The signature in JWS form, by "e", of header.claims. */
void token_es256(const char *header, const char *claims, unsigned char sig[64]);

/* The reason, or NULL and *user when it is accepted. */
const char *token_verify(struct auth *a, const char *token, int64_t now, int64_t *user);

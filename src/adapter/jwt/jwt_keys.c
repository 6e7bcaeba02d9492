#include "adapter/jwt/jwt_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FILE_MAX 16384
#define SECRET_MIN 32
#define RSA_BITS_MIN 2048
#define RSA_BITS_MAX 8192 /* beyond, one verification is a denial of service */

static const struct str names[JWT_ALGS] = {STR("HS256"), STR("RS256"), STR("ES256")};

struct str jwt_alg_name(enum jwt_alg alg)
{
    return names[alg];
}

/* The file's bytes; NULL with the reason. */
static unsigned char *read_file(const char *path, size_t *n, const char **why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    unsigned char *bytes = malloc(FILE_MAX + 1);
    ssize_t got = -1;
    *n = 0;
    if (fd >= 0 && bytes) {
        while (*n <= FILE_MAX && (got = read(fd, bytes + *n, FILE_MAX + 1 - *n)) > 0)
            *n += (size_t)got;
    }
    int error = errno;
    if (fd >= 0)
        close(fd);
    *why = got < 0 ? strerror(error) : *n > FILE_MAX ? "too large" : *n == 0 ? "empty" : NULL;
    if (!*why)
        return bytes;
    free(bytes);
    return NULL;
}

static const char *take_secret(struct jwt_key *key, unsigned char **bytes, size_t n)
{
    if (n < SECRET_MIN)
        return "an HS256 key has at least 32 bytes";
    /* Somebody's public key as a shared secret: that is the algorithm confusion, by configuration.
     */
    if (str_starts((struct str){(const char *)*bytes, n}, STR("-----BEGIN ")))
        return "a PEM file is no HS256 key";
    key->secret = *bytes;
    key->secret_len = n;
    *bytes = NULL;
    return NULL;
}

static const char *take_public(struct jwt_key *key, const unsigned char *bytes, size_t n)
{
    BIO *bio = BIO_new_mem_buf(bytes, (int)n);
    key->public_key = bio ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    ERR_clear_error();
    EVP_PKEY *p = key->public_key;
    if (!p)
        return "not a public key in PEM";
    if (key->alg == JWT_RS256) {
        if (EVP_PKEY_get_base_id(p) != EVP_PKEY_RSA)
            return "not an RSA key";
        int bits = EVP_PKEY_get_bits(p);
        return bits < RSA_BITS_MIN   ? "an RSA key has at least 2048 bits"
               : bits > RSA_BITS_MAX ? "an RSA key has at most 8192 bits"
                                     : NULL;
    }
    if (EVP_PKEY_get_base_id(p) != EVP_PKEY_EC)
        return "not an EC key";
    char group[32];
    size_t len;
    if (!EVP_PKEY_get_utf8_string_param(p, OSSL_PKEY_PARAM_GROUP_NAME, group, sizeof group, &len) ||
        strcmp(group, "prime256v1") != 0)
        return "not on the curve P-256";
    return NULL;
}

/* One "kid=ALG:/path". */
static const char *add_key(struct jwt_keys *k, struct str entry)
{
    struct str kid, alg, path = str_split(str_split(entry, '=', &kid), ':', &alg);
    if (!kid.len || !path.len)
        return "expected kid=ALG:/path";
    if (k->n == JWT_KEYS_MAX)
        return "too many keys";
    struct jwt_key *key = &k->key[k->n];
    if (!str_copy(key->kid, sizeof key->kid, kid))
        return "the kid is too long";
    for (int i = 0; i < k->n; i++) {
        if (strcmp(k->key[i].kid, key->kid) == 0)
            return "this kid comes twice";
    }
    int a = 0;
    while (a < JWT_ALGS && !str_eq(alg, names[a]))
        a++;
    if (a == JWT_ALGS)
        return "the algorithm is HS256, RS256 or ES256";
    key->alg = (enum jwt_alg)a;
    char file[4096];
    if (!str_copy(file, sizeof file, path))
        return "the path is too long";
    size_t n;
    const char *why;
    unsigned char *bytes = read_file(file, &n, &why);
    if (!bytes)
        return why;
    k->n++; /* from here on jwt_keys_free knows it */
    why = key->alg == JWT_HS256 ? take_secret(key, &bytes, n) : take_public(key, bytes, n);
    if (bytes)
        OPENSSL_cleanse(bytes, n);
    free(bytes);
    return why;
}

struct jwt_keys *jwt_keys_load(const char *spec, char *err, size_t err_cap)
{
    struct jwt_keys *k = calloc(1, sizeof *k);
    const char *why = k ? NULL : "out of memory";
    struct str entry = {0}, rest = str_of(spec);
    do {
        rest = str_split(rest, ',', &entry);
        if (!why)
            why = add_key(k, entry);
    } while (!why && rest.ptr);
    if (!why)
        return k;
    snprintf(err, err_cap, "\"" STR_FMT "\": %s", STR_ARG(entry), why);
    jwt_keys_free(k);
    return NULL;
}

void jwt_keys_free(struct jwt_keys *k)
{
    if (!k)
        return;
    for (int i = 0; i < k->n; i++) {
        if (k->key[i].secret)
            OPENSSL_cleanse(k->key[i].secret, k->key[i].secret_len);
        free(k->key[i].secret);
        EVP_PKEY_free(k->key[i].public_key);
    }
    free(k);
}

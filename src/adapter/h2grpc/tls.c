/* TLS of one connection: OpenSSL over our socket. Chain and name are always verified; HTTP/2 must
 * be agreed by ALPN. */
#include "adapter/h2grpc/internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

struct h2_tls {
    SSL_CTX *ctx;
    BIO_METHOD *socket; /* OpenSSL's own writes with write(2): SIGPIPE */
};

static int fd_of(BIO *b)
{
    return (int)(intptr_t)BIO_get_data(b);
}

static int on_bio_write(BIO *b, const char *bytes, int n)
{
    BIO_clear_retry_flags(b);
    ssize_t got = send(fd_of(b), bytes, (size_t)n, MSG_NOSIGNAL);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(b);
    return (int)got;
}

static int on_bio_read(BIO *b, char *dst, int cap)
{
    BIO_clear_retry_flags(b);
    ssize_t got = recv(fd_of(b), dst, (size_t)cap, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(b);
    return (int)got;
}

static long on_bio_ctrl(BIO *b, int command, long number, void *arg)
{
    (void)b, (void)number, (void)arg;
    return command == BIO_CTRL_FLUSH;
}

void h2_tls_free(struct h2_tls *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->ctx);
    BIO_meth_free(t->socket);
    free(t);
}

static bool set_up(struct h2_tls *t)
{
    static const unsigned char h2[] = {2, 'h', '2'};
    t->socket = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "seckill socket");
    t->ctx = SSL_CTX_new(TLS_client_method());
    if (!t->socket || !t->ctx)
        return false;
    BIO_meth_set_write(t->socket, on_bio_write);
    BIO_meth_set_read(t->socket, on_bio_read);
    BIO_meth_set_ctrl(t->socket, on_bio_ctrl);
    SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(t->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                 SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(t->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    return SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_alpn_protos(t->ctx, h2, sizeof h2) == 0;
}

struct h2_tls *h2_tls_create(const char *ca_file, char *err, size_t cap)
{
    struct h2_tls *t = calloc(1, sizeof *t);
    if (!t || !set_up(t)) {
        snprintf(err, cap, "TLS cannot be set up");
        h2_tls_free(t);
        return NULL;
    }
    bool own = ca_file && *ca_file;
    if (own ? SSL_CTX_load_verify_locations(t->ctx, ca_file, NULL) != 1
            : SSL_CTX_set_default_verify_paths(t->ctx) != 1) {
        snprintf(err, cap, "no certificates can be read from %s", own ? ca_file : "the system's");
        ERR_clear_error();
        h2_tls_free(t);
        return NULL;
    }
    return t;
}

SSL *h2_tls_open(const struct h2_tls *t, struct h2_target *target, int fd)
{
    SSL *ssl = SSL_new(t->ctx);
    BIO *bio = ssl ? BIO_new(t->socket) : NULL;
    if (!bio) {
        SSL_free(ssl);
        return NULL;
    }
    BIO_set_data(bio, (void *)(intptr_t)fd);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    X509_VERIFY_PARAM *verify = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(verify, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    int ok = target->server_is_address
                 ? X509_VERIFY_PARAM_set1_ip_asc(verify, target->server_name)
                 : X509_VERIFY_PARAM_set1_host(verify, target->server_name, 0) == 1 &&
                       SSL_set_tlsext_host_name(ssl, target->server_name) == 1;
    if (ok != 1) {
        SSL_free(ssl);
        return NULL;
    }
    SSL_set_connect_state(ssl);
    return ssl;
}

int h2_tls_handshake(SSL *ssl, const char **why)
{
    ERR_clear_error();
    int rc = SSL_do_handshake(ssl);
    if (rc == 1) {
        const unsigned char *alpn;
        unsigned n;
        SSL_get0_alpn_selected(ssl, &alpn, &n);
        if (n == 2 && memcmp(alpn, "h2", 2) == 0)
            return 1;
        *why = "the server does not speak HTTP/2 (ALPN)";
        return -1;
    }
    int kind = SSL_get_error(ssl, rc);
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
        return 0;
    long verified = SSL_get_verify_result(ssl);
    unsigned long code = ERR_peek_error();
    const char *reason = ERR_reason_error_string(code);
    *why = verified != X509_V_OK ? X509_verify_cert_error_string(verified)
           : reason              ? reason
                                 : "closed during the TLS handshake";
    ERR_clear_error();
    return -1;
}

static ssize_t result(SSL *ssl, int rc)
{
    if (rc > 0)
        return rc;
    int kind = SSL_get_error(ssl, rc);
    ERR_clear_error();
    if (kind == SSL_ERROR_ZERO_RETURN)
        return 0;
    errno = kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
    return -1;
}

ssize_t h2_tls_recv(SSL *ssl, void *dst, size_t cap)
{
    return result(ssl, SSL_read(ssl, dst, (int)cap));
}

ssize_t h2_tls_send(SSL *ssl, const void *bytes, size_t n)
{
    return result(ssl, SSL_write(ssl, bytes, (int)n));
}

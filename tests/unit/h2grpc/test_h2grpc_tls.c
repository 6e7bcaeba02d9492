/* TLS: whom the client trusts, and that it speaks the same through it. The certificates are made
 * here. */
#include "h2_world.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char ca_file[64];

struct pair {
    X509 *cert;
    EVP_PKEY *key;
};
static struct pair ca, other_ca;

static void extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(ext);
    X509_add_ext(cert, ext, -1);
    X509_EXTENSION_free(ext);
}

/* issuer NULL: signs itself, and may sign others. */
static struct pair make(const char *name, const char *alt, const struct pair *issuer, long seconds)
{
    struct pair p = {X509_new(), EVP_EC_gen("P-256")};
    static long serial = 1;
    assert_non_null(p.key);
    X509_set_version(p.cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(p.cert), serial++);
    X509_gmtime_adj(X509_getm_notBefore(p.cert), -7200);
    X509_gmtime_adj(X509_getm_notAfter(p.cert), seconds);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(p.cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509 *by = issuer ? issuer->cert : p.cert;
    X509_set_issuer_name(p.cert, X509_get_subject_name(by));
    X509_set_pubkey(p.cert, p.key);
    extend(p.cert, by, NID_basic_constraints, issuer ? "CA:FALSE" : "critical,CA:TRUE");
    if (alt)
        extend(p.cert, by, NID_subject_alt_name, alt);
    assert_true(X509_sign(p.cert, issuer ? issuer->key : p.key, EVP_sha256()) > 0);
    return p;
}

static void drop(struct pair *p)
{
    X509_free(p->cert);
    EVP_PKEY_free(p->key);
}

static void write_file(char *path, const struct pair *p)
{
    strcpy(path, "/tmp/seckill-ca-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    assert_int_equal(PEM_write_X509(f, p->cert), 1);
    fclose(f);
}

static char told_name[64];
static int on_name(SSL *ssl, int *alert, void *arg)
{
    (void)alert, (void)arg;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    str_copy(told_name, sizeof told_name, str_of(name ? name : ""));
    return SSL_TLSEXT_ERR_OK;
}

static const char *alpn = "\2h2"; /* NULL: the server does not know ALPN */
static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_n,
                   const unsigned char *in_bytes, unsigned in_n, void *arg)
{
    (void)ssl, (void)arg;
    unsigned char *chosen;
    if (SSL_select_next_proto(&chosen, out_n, (const unsigned char *)alpn, (unsigned)strlen(alpn),
                              in_bytes, in_n) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* A server with a certificate of its own, and a channel that wants it to be `authority`. */
static void begin_tls(const char *alt, const struct pair *issuer, long seconds,
                      const char *authority, const char *trusted)
{
    struct pair p = make("server", alt, issuer, seconds);
    server.tls = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate(server.tls, p.cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(server.tls, p.key), 1);
    if (alpn)
        SSL_CTX_set_alpn_select_cb(server.tls, on_alpn, NULL);
    SSL_CTX_set_tlsext_servername_callback(server.tls, on_name);
    drop(&p);
    begin_with((struct h2grpc_config){
        .authority = authority, .tls = true, .ca_file = trusted, .dial_us = 30 * SECONDS});
}

static int run(struct test_call *t)
{
    test_call_init(t, PATH, STR("hello"), in(50 * SECONDS));
    t->call.fail_fast = true;
    return test_call_run(loop, channel, t);
}

static void a_good_server(void **state)
{
    (void)state;
    begin_tls("DNS:mq.example", &ca, 3600, "mq.example", ca_file);
    struct test_call t;
    assert_int_equal(run(&t), 0);
    assert_string_equal(told_name, "mq.example");
    assert_non_null(strstr(h2_server_conn(&server)->headers, ":scheme: https\n"));
    assert_non_null(strstr(h2_server_conn(&server)->headers, ":authority: mq.example\n"));
    size_t n = 2 << 20; /* many records */
    char *bytes = calloc(1, n);
    test_call_init(&t, PATH, (struct str){bytes, n}, in(50 * SECONDS));
    assert_int_equal(test_call_run(loop, channel, &t), 0);
    assert_int_equal(h2_server_conn(&server)->data, 10 + n + 5);
    free(bytes);
    assert_int_equal(server.accepted, 1);
}

static void a_server_that_reads_late(void **state)
{
    (void)state;
    h2_server_setting(&server, 4, INT32_MAX);
    begin_tls("DNS:mq.example", &ca, 3600, "mq.example", ca_file);
    struct test_call t;
    assert_int_equal(run(&t), 0);
    struct h2_conn *c = h2_server_conn(&server);
    h2_say_u32(c, WINDOW, 0, 1 << 30);
    h2_pause(c);
    size_t n = 12 << 20; /* more than a socket holds */
    unsigned char *bytes = malloc(n);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    test_call_init(&t, PATH, (struct str){(char *)bytes, n}, in(50 * SECONDS));
    h2grpc_start(channel, &t.call);
    UNTIL(loop, t.call.sent_us);
    uint32_t sum = h2_sum(c->sum, (unsigned char[]){0, 0, 0xc0, 0, 0}, 5);
    sum = h2_sum(sum, bytes, n);
    h2_resume(c);
    UNTIL(loop, t.ends);
    assert_int_equal(t.end.rc, 0);
    assert_int_equal(c->data, 10 + n + 5);
    assert_int_equal(c->sum, sum);
    free(bytes);
}

static void megabytes(struct h2_conn *c, int32_t id)
{
    static const unsigned char zeros[16384];
    h2_say_head(c, id);
    h2_say(c, DATA, 0, id, (unsigned char[]){0, 0, 0x30, 0, 0}, 5); /* 3 MiB */
    for (int i = 0; i < 192; i++)
        h2_say(c, DATA, 0, id, zeros, sizeof zeros);
    h2_say_status(c, id, "0");
}

static void a_server_known_by_its_address(void **state)
{
    (void)state;
    begin_tls("IP:127.0.0.1", &ca, 3600, NULL, ca_file);
    struct test_call t;
    server.on_end = megabytes;
    assert_int_equal(run(&t), 0);
    assert_int_equal(t.last_n, 3 << 20);
    assert_string_equal(told_name, ""); /* an address is no server name */
}

static void expect_refusal(const char *why)
{
    struct test_call t;
    assert_int_equal(run(&t), ERR_UNAVAIL);
    if (!strstr(t.text, why))
        fail_msg("\"%s\" does not say \"%s\"", t.text, why);
    assert_int_equal(server.requests, 0);
    assert_false(h2grpc_up(channel));
}

static void a_server_of_another_name(void **state)
{
    (void)state;
    begin_tls("DNS:other.example", &ca, 3600, "mq.example", ca_file);
    expect_refusal("hostname mismatch");
}

static void a_server_of_another_address(void **state)
{
    (void)state;
    begin_tls("IP:127.0.0.2,DNS:127.0.0.1", &ca, 3600, NULL, ca_file);
    expect_refusal("IP address mismatch");
}

static void a_server_of_an_unknown_authority(void **state)
{
    (void)state;
    begin_tls("DNS:mq.example", &other_ca, 3600, "mq.example", ca_file);
    expect_refusal("unable to get local issuer certificate");
}

static void a_server_that_signed_itself(void **state)
{
    (void)state;
    begin_tls("DNS:mq.example", NULL, 3600, "mq.example", ca_file);
    expect_refusal("self-signed certificate");
}

static void an_expired_server(void **state)
{
    (void)state;
    begin_tls("DNS:mq.example", &ca, -3600, "mq.example", ca_file);
    expect_refusal("certificate has expired");
}

static void the_systems_authorities_do_not_know_ours(void **state)
{
    (void)state;
    begin_tls("DNS:mq.example", &ca, 3600, "mq.example", NULL);
    expect_refusal("unable to get local issuer certificate");
}

static void a_server_without_alpn(void **state)
{
    (void)state;
    alpn = NULL;
    begin_tls("DNS:mq.example", &ca, 3600, "mq.example", ca_file);
    expect_refusal("ALPN");
    alpn = "\2h2";
}

static void a_server_of_another_protocol(void **state)
{
    (void)state;
    alpn = "\10http/1.1";
    begin_tls("DNS:mq.example", &ca, 3600, "mq.example", ca_file);
    expect_refusal("ALPN");
    alpn = "\2h2";
}

static void a_server_without_tls(void **state)
{
    (void)state;
    begin_tls("DNS:mq.example", &ca, 3600, "mq.example", ca_file);
    SSL_CTX_free(server.tls);
    server.tls = NULL;
    struct test_call t;
    test_call_init(&t, PATH, STR("hello"), in(50 * SECONDS));
    t.call.fail_fast = true;
    h2grpc_start(channel, &t.call);
    UNTIL(loop, t.ends);
    assert_int_equal(t.end.rc, ERR_UNAVAIL);
}

static void a_connection_cut_in_the_handshake(void **state)
{
    (void)state;
    begin_tls("DNS:mq.example", &ca, 3600, "mq.example", ca_file);
    struct test_call t;
    test_call_init(&t, PATH, STR("hello"), in(50 * SECONDS));
    t.call.fail_fast = true;
    h2grpc_start(channel, &t.call);
    UNTIL(loop, server.accepted);
    h2_close(h2_server_conn(&server));
    UNTIL(loop, t.ends);
    assert_true(t.end.rc == ERR_UNAVAIL);
}

static void a_connection_lost_after_the_request(void **state)
{
    (void)state;
    begin_tls("DNS:mq.example", &ca, 3600, "mq.example", ca_file);
    struct test_call t;
    for (int i = 1; i <= 2; i++) {
        server.abrupt = i == 2;
        server.on_end = h2_nothing;
        test_call_init(&t, PATH, STR("hello"), in(50 * SECONDS));
        h2grpc_start(channel, &t.call);
        UNTIL(loop, server.ends == i);
        h2_close(h2_server_conn(&server));
        UNTIL(loop, t.ends);
        assert_int_equal(t.end.rc, ERR_UNCERTAIN);
    }
    server.on_end = NULL;
    test_call_init(&t, PATH, STR("hello"), in(50 * SECONDS));
    assert_int_equal(test_call_run(loop, channel, &t), 0);
}

static void a_file_without_certificates(void **state)
{
    (void)state;
    char err[128];
    struct h2grpc_config c = {.target = "a:1", .tls = true, .ca_file = "/nonexistent/ca.pem"};
    assert_null(h2grpc_new(loop, &c, err, sizeof err));
    assert_non_null(strstr(err, "/nonexistent/ca.pem"));
    c.ca_file = "/dev/null";
    assert_null(h2grpc_new(loop, &c, err, sizeof err));
}

static int make_authorities(void **state)
{
    (void)state;
    /* Client and server are one process, and OpenSSL's own sockets write without MSG_NOSIGNAL. */
    signal(SIGPIPE, SIG_IGN);
    ca = make("test authority", NULL, NULL, 3600);
    other_ca = make("another authority", NULL, NULL, 3600);
    write_file(ca_file, &ca);
    return 0;
}

static int drop_authorities(void **state)
{
    (void)state;
    drop(&ca);
    drop(&other_ca);
    unlink(ca_file);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_good_server),
        TEST(a_server_that_reads_late),
        TEST(a_server_known_by_its_address),
        TEST(a_server_of_another_name),
        TEST(a_server_of_another_address),
        TEST(a_server_of_an_unknown_authority),
        TEST(a_server_that_signed_itself),
        TEST(an_expired_server),
        TEST(the_systems_authorities_do_not_know_ours),
        TEST(a_server_without_alpn),
        TEST(a_server_of_another_protocol),
        TEST(a_server_without_tls),
        TEST(a_connection_cut_in_the_handshake),
        TEST(a_connection_lost_after_the_request),
        TEST(a_file_without_certificates),
    };
    return cmocka_run_group_tests(tests, make_authorities, drop_authorities);
}

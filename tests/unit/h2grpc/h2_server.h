/* A server that does to its clients what the test says, frame by frame, on the test's own loop.
 * Unless told otherwise it is a good one: SETTINGS, acknowledgements, windows, and to each request
 * that ended the message "ok" with grpc-status 0. */
#pragma once

#include "h2grpc_test.h"

#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, PING = 6, GOAWAY = 7, WINDOW = 8 };
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4 };

struct h2_conn {
    struct h2_server *server;
    struct loop_io io;
    bool open, greeted;
    struct strbuf in, out;
    nghttp2_hd_inflater *inflater;
    SSL *ssl;
    char headers[4096]; /* of the last request, "name: value\n" each */
    int32_t last;       /* stream of the last request */
    int streams;        /* requests that have not been answered or reset */
    int most_streams;
    size_t data;       /* bytes of DATA, ever */
    uint32_t sum;      /* h2_sum of them */
    char body[65536];  /* their first ones */
    int resets, reset; /* RST_STREAM from the client: how many, the last code */
    int goaways, pings, pongs, window_bytes;
    long limit; /* > 0: closes after so many more bytes */
};

struct h2_server {
    struct loop *loop;
    struct loop_io io;
    char target[32];
    struct h2_conn conns[32];
    int accepted, requests, ends;
    SSL_CTX *tls;
    unsigned char settings[60]; /* entries of six bytes */
    size_t settings_n;
    bool mute;   /* no SETTINGS, no acknowledgement */
    bool stall;  /* no WINDOW_UPDATE */
    bool abrupt; /* TLS: no close_notify */
    long limit;  /* the next connections' */
    int refuse;  /* the next so many requests: REFUSED_STREAM */
    void (*on_request)(struct h2_conn *c, int32_t id); /* HEADERS came */
    void (*on_end)(struct h2_conn *c, int32_t id);     /* END_STREAM came; NULL: the good answer */
    void (*on_bytes)(struct h2_conn *c);               /* DATA came */
};

void h2_server_start(struct h2_server *s, struct loop *l);
void h2_server_stop(struct h2_server *s);
void h2_server_setting(struct h2_server *s, int id, uint32_t value);
struct h2_conn *h2_server_conn(struct h2_server *s); /* the one accepted last; zeros before */
void h2_close(struct h2_conn *c);
void h2_pause(struct h2_conn *c); /* reads nothing any more */
void h2_resume(struct h2_conn *c);
uint32_t h2_sum(uint32_t sum, const void *bytes, size_t n); /* starts with 0 */

void h2_say_bytes(struct h2_conn *c, const void *bytes, size_t n);
void h2_say(struct h2_conn *c, int type, int flags, int32_t id, const void *payload, size_t n);
void h2_say_u32(struct h2_conn *c, int type, int32_t id, uint32_t v); /* RST_STREAM, WINDOW */
void h2_say_goaway(struct h2_conn *c, int32_t last, uint32_t code);
/* Name, value, …, NULL. */
void h2_say_headers(struct h2_conn *c, int32_t id, int flags, const char *const *pairs);
#define SAY_HEADERS(c, id, flags, ...)                                                             \
    h2_say_headers(c, id, flags, (const char *const[]){__VA_ARGS__, NULL})
void h2_say_head(struct h2_conn *c, int32_t id); /* 200, application/grpc */
void h2_say_message(struct h2_conn *c, int32_t id, const char *text);
void h2_say_status(struct h2_conn *c, int32_t id, const char *status); /* the trailers */
void h2_say_ok(struct h2_conn *c, int32_t id);                         /* all three */
void h2_nothing(struct h2_conn *c, int32_t id);                        /* for on_end: silence */

/* A real server on a loop of its own thread, and a raw client that sees every byte and how a
 * connection ends. */
#pragma once

#include "adapter/http/server.h"

#include <pthread.h>
#include <stdatomic.h>

enum { FIXTURE_HELD = 64, FIXTURE_BIG = 4 * 1024 * 1024 };

struct fixture {
    struct http_service service; /* first: handlers get it */
    struct loop *loop;
    struct http_server *server;
    struct http_limits limits;
    const char *prefix;
    int port;
    pthread_t thread;
    atomic_int executed, gone, held, drained;
    struct http_exchange *exchanges[FIXTURE_HELD];
};

/* Routes: POST /v1/orders (echo), GET /v1/items, GET /v1/items/{}/x/{} (shows the two), GET /hold
 * (answered by fixture_release), GET /careless (the same, without on_gone), GET /big, GET /sold (a
 * problem), GET /detail. */
void fixture_start(struct fixture *f, const char *prefix);
void fixture_stop(struct fixture *f);
/* Runs fn on the loop's thread and waits for it. */
void fixture_call(struct fixture *f, void (*fn)(struct fixture *f, void *arg), void *arg);
void fixture_release(struct fixture *f); /* answers all that is held */
void fixture_drain(struct fixture *f, int64_t in_us);
int fixture_connections(struct fixture *f);
/* Waits until *what is n; fails after five seconds. */
void fixture_await(const atomic_int *what, int n);
void fixture_await_connections(struct fixture *f, int n);
uint64_t fixture_metric(const char *name, const char *labels);

struct peer {
    int fd;
    size_t len;
    char bytes[65536];
};
enum ending { ENDED_EOF, ENDED_RESET, ENDED_TIMEOUT };

void peer_dial(struct peer *p, int port);
void peer_say(struct peer *p, struct str s);
void peer_says(struct peer *p, const char *s);
/* One answer: its status; the body is copied (and ended by a zero). -1 if the connection ended
 * first. */
int peer_answer(struct peer *p, char *head, size_t head_cap, char *body, size_t body_cap);
int peer_status(struct peer *p);
/* Reads to the end; what was read is in bytes. */
enum ending peer_rest(struct peer *p);
bool peer_silent(struct peer *p, int ms); /* nothing comes, and it stays open */
void peer_close(struct peer *p);
void peer_reset(struct peer *p);

/* One accepted connection: between the server (server.c) and the connection (conn.c). */
#pragma once

#include "adapter/http/answer.h"
#include "adapter/http/request.h"
#include "adapter/http/server.h"
#include "base/metric.h"

/* What a connection needs only while a request is partly read or being answered: an idle one has
 * none. */
struct http_in {
    struct http_in *next;
    struct http_conn *conn;
    struct http_exchange x;
    struct http_request request;
    uint32_t start, len; /* bytes[start … len) are not used up; the request begins at start */
    int64_t received_us; /* when the request's first byte was read */
    bool inflight;       /* counted in the gauge: its handler did not answer at once */
    char bytes[];
};

enum http_conn_state {
    HTTP_CONN_OPEN,
    HTTP_CONN_LINGER, /* all is said; what still comes is read and dropped, so that no reset
                         overtakes the last answer */
    HTTP_CONN_ZOMBIE, /* the client is gone; waits for an answer whose owner does not care (on_gone
                         NULL) */
    HTTP_CONN_DEAD,   /* on the server's list of the dead until the end of the turn */
};

enum http_due {
    HTTP_DUE_NONE,
    HTTP_DUE_HEADER,
    HTTP_DUE_BODY,
    HTTP_DUE_WRITE,
    HTTP_DUE_IDLE,
    HTTP_DUE_LINGER,
    HTTP_DUES
};

struct http_conn {
    struct list link; /* the server's open, zombies or dead */
    struct http_server
        *server; /* NULL: the server is gone, only the answer of a zombie is awaited */
    struct loop_io io;
    struct timer timer; /* lazily: often armed for an earlier time than what is due */
    struct loop_flush flush;
    struct loop_task resume;
    struct http_in *in;
    struct http_out *out;
    int64_t read_us;    /* of the last read */
    int64_t begun_us;   /* the request that is being read: its deadlines count from here; 0: none */
    int64_t writing_us; /* since when something is unwritten */
    int64_t idle_us;    /* since when it is idle; or lingers */
    int64_t due_us;
    uint8_t state, due;
    bool active;      /* a request is with its handler */
    bool in_callback; /* answers given now are written at the end of it */
    bool ended;       /* the client has ended its sending */
    bool closing;     /* no further request: close when all is written */
    bool blocked;     /* a write was short */
    bool stalled;     /* requests wait in the block until what is unwritten has left */
};

struct http_metrics {
    const char *prefix;
    const struct http_service *service;
    struct metric *
        *requests; /* [n_routes + 1][HTTP_STATUSES], each registered when it first occurs */
    struct metric **durations; /* [n_routes + 1] */
    struct metric *inflight, *connections, *accepted, *refused_connections, *malformed, *canceled;
    struct metric *deadlines[HTTP_DUES];
};
void http_metrics_init(struct http_metrics *m, const char *prefix,
                       const struct http_service *service);
void http_metrics_deinit(struct http_metrics *m);
void http_metrics_answer(struct http_metrics *m, const struct http_route *route, int status,
                         int64_t duration_us);

struct http_server {
    struct loop *loop;
    struct http_limits limits;
    struct http_service *service;
    struct http_metrics metrics;
    struct loop_io listener;
    struct timer accept_again; /* after the descriptors ran out */
    int port;
    struct list open, zombies, dead;
    struct loop_task reap;
    int n_open;
    struct http_in *in_free;
    int n_in_free;
    uint32_t in_cap;
    struct http_out_pool out_pool;
    struct http_date date;
    bool draining;
    int64_t drain_deadline_us;
    int64_t drain_idle_us; /* an idle connection is closed then */
    struct timer drain_timer;
    struct loop_task drained;
    void (*on_drained)(struct http_server *s, void *arg);
    void *drained_arg;
};

/* Takes over fd. False without memory or descriptors (fd is closed). */
bool http_conn_new(struct http_server *s, int fd);
/* Cuts it: its handler hears on_gone. */
void http_conn_cut(struct http_conn *c);
/* The server is being drained: what is idle is looked at again. */
void http_conn_drain(struct http_conn *c);
/* The server is freed: without a turn of the loop. */
void http_conn_abandon(struct http_conn *c);
void http_server_closed(struct http_server *s); /* a connection has left `open` */
struct http_in *http_in_take(struct http_server *s);
void http_in_release(struct http_server *s, struct http_in *in);

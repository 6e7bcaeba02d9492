/* One proxied connection: a client's socket, the server's, and a link for each direction. A link
 * reads at its source, passes through the toxics' stages and writes at its sink; it reads only
 * while less than LINK_BUFFER bytes are on their way (back-pressure). Half-closes and resets of one
 * side are handed to the other. */
#pragma once

#include "loop/loop.h"
#include "proxy.h"
#include "stage.h"

enum { LINK_READ = 16384, LINK_BUFFER = 1024 * 1024 };

struct tracker;

struct link {
    struct conn *conn;
    enum stream stream;
    struct list stages;
    struct list out;
    size_t buffered; /* bytes on their way, with what each chunk costs */
    uint64_t read;   /* bytes entered so far */
    bool read_ended; /* the source has ended its sending */
    bool ended;      /* the sink has been shut down for writing, or will never be told */
    bool waits_write;
    bool held; /* a black hole keeps the end of it */
};

struct conn_end {
    struct conn *conn;
    struct loop_io io;
    int fd;
    bool connecting;
};

enum { END_CLIENT, END_SERVER };

struct conn {
    struct list link; /* the proxy's connections */
    struct loop *loop;
    struct proxy *proxy; /* may be gone when dead */
    uint64_t no;         /* from 1, in the order of acceptance */
    struct conn_end end[2];
    struct link links[2]; /* by enum stream */
    struct tracker *tracker;
    struct loop_task reap;
    bool dead, pumping[2];
};

/* Takes over fd, and connects to the proxy's upstream. */
void conn_open(struct proxy *p, int fd);
/* Ends it at once: both sockets are closed (in good order: linger.h) or reset. Freed at the end of
 * the turn. Harmless when dead. */
void conn_kill(struct conn *c, bool reset);
/* A toxic was added at the end, changed, or is about to be removed. */
void conn_toxic_added(struct conn *c, struct toxic *t);
void conn_toxic_changed(struct conn *c, struct toxic *t);
void conn_toxic_removed(struct conn *c, struct toxic *t);
/* The stage of a toxic that applies to this connection, or NULL. */
struct stage *conn_stage(struct conn *c, const struct toxic *t);

/* --- for stages and trackers --- */
/* Bytes enter the link's first stage. */
void link_emit(struct link *l, const void *bytes, size_t n);
void link_emit_kind(struct link *l, enum chunk_kind kind);
void link_pump(struct link *l);
/* The chunk leaves its stage for the next one; n < len: only its first n bytes do. */
void stage_pass(struct stage *s, struct chunk *c, size_t n);
/* An end, or a cut, of what has left the stage. */
void stage_pass_new(struct stage *s, enum chunk_kind kind);
/* The chunk ends here. */
void stage_drop(struct stage *s, struct chunk *c);
int64_t conn_now_us(const struct conn *c);
struct decide_about conn_about(const struct conn *c, const char *what, const struct toxic *t,
                               uint64_t index);

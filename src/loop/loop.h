/* The event loop of one thread (libevent underneath), in turns: each turn polls once, runs what
 * became ready, then the timers, then what was deferred, then the flushes (so that everything
 * written during a turn leaves in one write). All of it belongs to the loop's thread, except
 * loop_post and loop_stop. */
#pragma once

#include "base/list.h"
#include "base/sched.h"
#include <stdbool.h>
#include <stdint.h>

struct loop;

/* Heap. NULL without descriptors or memory. */
struct loop *loop_new(void);
void loop_free(
    struct loop *l);           /* runs what was posted and deferred; nothing else may be attached */
void loop_run(struct loop *l); /* until loop_stop; may be called again */
void loop_stop(struct loop *l); /* any thread */
struct sched *loop_sched(struct loop *l);
static inline int64_t loop_now_us(struct loop *l)
{
    return loop_sched(l)->now_us;
}
int64_t loop_wall_us(struct loop *l); /* wall clock, read once a turn */

/* --- readiness of a descriptor (level-triggered) --- */
/* LOOP_HANGUP stands alone: silent until the peer is gone altogether (reset, or closed in both
 * directions); a peer that only ended its own sending is not. */
enum { LOOP_READ = 1, LOOP_WRITE = 2, LOOP_HANGUP = 4 };
struct loop_io {
    void (*on_ready)(struct loop_io *io, int what);
    int fd;
    void *impl; /* NULL when not attached */
    int want;
    struct loop *loop; /* internal */
};
int loop_io_add(struct loop *l, struct loop_io *io, int fd, int want); /* 0 or ERR_OVERLOAD */
void loop_io_want(struct loop *l, struct loop_io *io, int want); /* 0: keeps it attached, silent */
void loop_io_remove(struct loop *l,
                    struct loop_io *io); /* harmless when not attached; does not close */

/* --- at the end of this turn, once, in the order of asking --- */
struct loop_flush {
    struct list link; /* list_init before the first use */
    void (*on_flush)(struct loop_flush *f);
};
void loop_flush_later(struct loop *l, struct loop_flush *f); /* harmless when already asked for */
void loop_flush_cancel(struct loop_flush *f);

/* --- in this turn or the next, but never inside the caller: for completions and for freeing --- */
struct loop_task {
    struct list link; /* list_init before the first use */
    void (*on_run)(struct loop_task *t);
};
void loop_defer(struct loop *l, struct loop_task *t); /* harmless when already asked for */
void loop_defer_cancel(struct loop_task *t);

/* --- from any thread: runs on the loop's thread, in the order of posting; may be posted again once
 * it runs --- */
struct loop_post {
    struct loop_post *next;
    void (*on_run)(struct loop_post *p);
};
void loop_post(struct loop *l, struct loop_post *p);

/* --- signals, on one loop of the process only --- */
struct loop_signal {
    void (*on_signal)(struct loop_signal *s, int signo);
    void *impl;
    struct loop *loop; /* internal */
};
int loop_signal_add(struct loop *l, struct loop_signal *s, int signo);
void loop_signal_remove(struct loop *l, struct loop_signal *s);

/* --- host names, without blocking the loop --- */
#include <sys/socket.h>
struct loop_resolve {
    void (*on_done)(
        struct loop_resolve *r,
        int rc); /* rc 0 or ERR_UNAVAIL; exactly once, never inside loop_resolve_start */
    struct sockaddr_storage addr; /* out: the first address */
    socklen_t addr_len;
    bool prefer_ipv4; /* the first of these, if there is one */
    void *impl;
};
void loop_resolve_start(struct loop *l, struct loop_resolve *r, const char *host, int port);
void loop_resolve_cancel(struct loop *l, struct loop_resolve *r); /* on_done will not come */

/* --- a connection out, without blocking the loop --- */
/* The descriptor, the caller's to close, with io attached for LOOP_READ and LOOP_WRITE:
 * io->on_ready comes when the connection is there or failed, which loop_connect_error tells.
 * Negative: an errno, and nothing is left behind. Time is the caller's to bound. user_timeout_ms:
 * so long what was sent may go unconfirmed (TCP_USER_TIMEOUT); 0: as the system has it. */
int loop_connect(struct loop *l, struct loop_io *io, const struct sockaddr *addr, socklen_t len,
                 int user_timeout_ms);
int loop_connect_error(int fd); /* 0, or an errno */

/* A Redis of the test's own: a child of this process, on a unix socket in a directory of its own,
 * AOF always, noeviction. Dies with the process, whatever happens to it. */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <sys/types.h>

struct private_redis {
    char dir[64], socket[96], url[112]; /* url: unix://… */
    char password[64];                  /* "" or what the test's own client says */
    pid_t pid;                          /* 0: not running */
    redisContext *client; /* the test's own connection, made by private_redis_command */
};

/* Starts it and waits until it answers; more: further words of its command line, NULL-terminated,
 * or NULL. Aborts the test program when that fails. */
void private_redis_start(struct private_redis *r, const char *const *more);
void private_redis_kill(struct private_redis *r); /* SIGKILL: the data stay */
void private_redis_again(struct private_redis *r,
                         const char *const *more);  /* after kill: same place, same data */
void private_redis_freeze(struct private_redis *r); /* SIGSTOP, and waits until it stands still */
void private_redis_thaw(struct private_redis *r);
void private_redis_stop(struct private_redis *r); /* and removes its directory */

/* One command, blocking, as redisCommand; aborts when the connection breaks. The caller frees the
 * reply. */
redisReply *private_redis_command(struct private_redis *r, const char *format, ...);
/* The same, for a reply that is an integer. */
long long private_redis_int(struct private_redis *r, const char *format, ...);
/* The same for text; "" for nil. Valid until the next call. */
const char *private_redis_text(struct private_redis *r, const char *format, ...);

/* seckillctl: what its commands share. A straight-line program: one loop, turned until the one
 * operation that was started is complete. One thread. */
#pragma once

#include "adapter/redis/redis.h"
#include "base/op.h"
#include "daemon/common/event_queue.h"
#include "daemon/ctl/args.h"
#include "daemon/ctl/out.h"
#include "daemon/settings.h"
#include "loop/loop.h"
#include "port/orders.h"
#include "port/stock.h"

/* Exit statuses. */
enum { CTL_OK = 0, CTL_FAILED = 1, CTL_USAGE = 2, CTL_UNKNOWN = 3 };

#define CTL_CALL_US (INT64_C(5) * 1000 * 1000) /* one call of a command to Redis or PostgreSQL */

struct ctl {
    struct settings settings;
    struct conf conf;
    struct loop *loop;        /* made by ctl_loop */
    struct stock *stock;      /* made by ctl_stock */
    struct event_queue queue; /* made by ctl_queue */
    struct orders *orders;    /* made by ctl_orders (books.h) */
};

struct ctl_command {
    const char *group, *verb; /* verb NULL: the group is the command */
    const struct args_option *options;
    size_t n_options;
    const char *words; /* of the usage line: "ID", or "" */
    const char *help;  /* the first line is the summary */
    int (*run)(struct ctl *c, const struct ctl_command *self, int argc, char **argv);
};

extern const struct ctl_command *const ctl_commands[];
extern const size_t ctl_commands_len;

/* args_read with the command's options; says what is wrong and returns CTL_USAGE, or -1 to go on.
 */
int ctl_args(const struct ctl_command *self, void *dst, int argc, char **argv, struct str *words,
             int *n_words);

/* Who sits there, user@host: behind sudo it is the one who called it. It is told and not proven;
 * that is the database's `operator`. */
struct str ctl_login(char *mem, size_t cap);
/* From now on every connection to PostgreSQL says so, and every row of operator_actions has it. */
void ctl_sign(void);

/* "seckillctl: …" on standard error. */
void ctl_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Each is made at its first use and lives until ctl_deinit. NULL: complained. */
struct loop *ctl_loop(struct ctl *c);
struct stock *ctl_stock(struct ctl *c);
struct redis_config ctl_redis_config(const struct ctl *c, const char *link);
void ctl_deinit(struct ctl *c);

/* Before an operation is submitted: its on_done and deadline. Then ctl_await turns the loop until
 * it is complete and returns its rc. One at a time. */
void ctl_op(struct ctl *c, struct op *op, int64_t timeout_us);
int ctl_await(struct ctl *c);
/* Turns the loop for that long. */
void ctl_sleep(struct ctl *c, int64_t us);

/* "Redis: … (ERR_UNAVAIL)" for an rc < 0 of the stock port; CTL_FAILED. */
int ctl_stock_failed(const struct ctl *c, const char *what, int rc);

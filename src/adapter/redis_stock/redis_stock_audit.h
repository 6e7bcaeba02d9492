/* What an audit reads in Redis (seckillctl audit): all keys of one item, found by SCAN, since its
 * reservations are no member of anything once they are settled. Nothing is changed. Beside
 * adapter/pg/pg_audit.h. It has a connection of its own and turns the loop until it is done. One
 * thread.
 *
 * SCAN may say something twice. What is written meanwhile may be missed: whoever reads compares the
 * item's version before and after. */
#pragma once

#include "adapter/redis/redis.h"
#include "core/item.h"
#include "core/uuid.h"
#include "core/verdict.h"

/* The keys of an item beside its reservations. */
enum redis_stock_key {
    REDIS_STOCK_META,
    REDIS_STOCK_STOCK,
    REDIS_STOCK_BUYERS,
    REDIS_STOCK_PENDING,
    REDIS_STOCK_EVENTS,
    REDIS_STOCK_RESULTS,
    REDIS_STOCK_KEYS
};
const char *redis_stock_key_name(enum redis_stock_key k); /* "meta" … */

struct redis_stock_audit_record {
    int64_t user_id;
    struct uuid request_id;
    bool readable; /* else only the above and what could be read of the rest */
    bool bad_rank; /* not its state's */
    enum reservation_status status;
    struct verdict verdict;
    int64_t order_id, epoch, seq;
    struct uuid reservation_id, message_id;
    int64_t expires_ms; /* -1: never; 0: not known, it is gone meanwhile */
};

struct redis_stock_audit_buyer {
    int64_t user_id, order_id;
    struct uuid reservation_id, request_id;
};

/* Embedded in the reader's struct. What a callback returns < 0 ends the reading and is the rc. */
struct redis_stock_audit {
    int (*on_record)(struct redis_stock_audit *a, const struct redis_stock_audit_record *r);
    int (*on_buyer)(struct redis_stock_audit *a, const struct redis_stock_audit_buyer *b);
    int (*on_pending)(struct redis_stock_audit *a, int64_t user_id, const struct uuid *request_id);
    /* -1: never, -2: there is no such key. */
    void (*on_expiry)(struct redis_stock_audit *a, enum redis_stock_key k, int64_t expires_ms);
    /* What stands where it cannot: "pending has a member that makes no sense", and it. */
    void (*on_stray)(struct redis_stock_audit *a, const char *what, struct str text);
    /* Out: a key may have been moved (MIGRATE), which takes along what is left of its life: its end
     * moves by the time that took. */
    bool ends_may_move;
};

/* 0; < 0 as in err.h, ERR_INTERNAL also for keys of another type. max_calls: under way at once. */
int redis_stock_audit_read(struct loop *l, const struct redis_config *c, struct item item,
                           int max_calls, struct redis_stock_audit *a);

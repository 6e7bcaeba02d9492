#include "adapter/redis/reply.h"

#include <limits.h>

static struct redis_reply *make(const redisReadTask *task, enum redis_type type)
{
    struct reply_reader *rr = task->privdata;
    struct redis_reply *r = arena_take(&rr->arena, sizeof *r);
    if (!r)
        return NULL;
    *r = (struct redis_reply){.type = type};
    if (task->parent) {
        struct redis_reply *parent = task->parent->obj;
        parent->items[task->idx] = r;
    }
    return r;
}

static void *make_string(const redisReadTask *task, char *bytes, size_t n)
{
    enum redis_type type = task->type == REDIS_REPLY_ERROR    ? REDIS_ERROR
                           : task->type == REDIS_REPLY_STATUS ? REDIS_STATUS
                                                              : REDIS_STRING;
    struct reply_reader *rr = task->privdata;
    char *copy = arena_take(&rr->arena, n + 1);
    struct redis_reply *r = copy ? make(task, type) : NULL;
    if (!r)
        return NULL;
    memcpy(copy, bytes, n);
    copy[n] = 0;
    r->s = (struct str){copy, n};
    return r;
}

static void *make_array(const redisReadTask *task, int n)
{
    struct reply_reader *rr = task->privdata;
    struct redis_reply *r = make(task, REDIS_ARRAY);
    if (!r || n == 0)
        return r;
    if ((size_t)n > ARENA_MAX / sizeof *r->items)
        return NULL;
    r->items = arena_take(&rr->arena, (size_t)n * sizeof *r->items);
    if (!r->items)
        return NULL;
    r->n = (size_t)n;
    return r;
}

static void *make_integer(const redisReadTask *task, long long i)
{
    struct redis_reply *r = make(task, REDIS_INT);
    if (r)
        r->i = i;
    return r;
}

static void *make_nil(const redisReadTask *task)
{
    return make(task, REDIS_NIL);
}

static void drop(void *reply)
{
    (void)reply; /* the arena's */
}

int reply_reader_init(struct reply_reader *r)
{
    static redisReplyObjectFunctions functions = {
        .createString = make_string,
        .createArray = make_array,
        .createInteger = make_integer,
        .createNil = make_nil,
        .freeObject = drop,
    };
    arena_init(&r->arena);
    r->reader = redisReaderCreateWithFunctions(&functions);
    if (!r->reader)
        return ERR_OVERLOAD;
    r->reader->privdata = r;
    return 0;
}

void reply_reader_deinit(struct reply_reader *r)
{
    if (r->reader)
        redisReaderFree(r->reader);
    r->reader = NULL;
    arena_deinit(&r->arena);
}

int reply_reader_feed(struct reply_reader *r, const char *bytes, size_t n)
{
    /* One reply whose bytes do not end is refused before it fills the memory. */
    if (r->reader->len - r->reader->pos > ARENA_MAX)
        return ERR_UNAVAIL;
    return redisReaderFeed(r->reader, bytes, n) == 0 ? 0 : ERR_UNAVAIL;
}

int reply_reader_get(struct reply_reader *r, struct redis_reply **reply)
{
    void *got = NULL;
    if (redisReaderGetReply(r->reader, &got) != 0)
        return ERR_UNAVAIL;
    *reply = got;
    return 0;
}

void reply_reader_next(struct reply_reader *r)
{
    arena_reset(&r->arena);
}

int reply_rc(const struct redis_reply *reply)
{
    /* Each of these is said before a script or command has changed anything. */
    static const char *const not_done[] = {
        "OOM ",
        "MISCONF ",
        "READONLY ",
        "LOADING ",
        "BUSY ",
        "NOREPLICAS ",
        "TRYAGAIN ",
        "CLUSTERDOWN ",
        "MOVED ",
        "ASK ",
        "NOSCRIPT ",
        "NOAUTH ",
        "WRONGPASS ",
        "NOPERM ",
        "MASTERDOWN ",
        "UNBLOCKED ",
        "ERR max number of clients",
    };
    if (reply->type != REDIS_ERROR)
        return 0;
    for (size_t i = 0; i < sizeof not_done / sizeof *not_done; i++) {
        if (str_starts(reply->s, str_of(not_done[i])))
            return ERR_UNAVAIL;
    }
    return ERR_INTERNAL;
}

bool reply_is_noscript(const struct redis_reply *reply)
{
    return reply->type == REDIS_ERROR && str_starts(reply->s, STR("NOSCRIPT "));
}

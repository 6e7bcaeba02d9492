#include "stage.h"

#include "conn.h"
#include <stdlib.h>

static struct sched *sched_of(const struct stage *s)
{
    return loop_sched(s->of->conn->loop);
}

static int64_t now_us(const struct stage *s)
{
    return conn_now_us(s->of->conn);
}

static void on_timer(struct timer *t)
{
    link_pump(container_of(t, struct stage, timer)->of);
}

static void wake_at(struct stage *s, int64_t at_us)
{
    sched_set(sched_of(s), &s->timer, at_us);
}

static struct decide *decide_of(const struct stage *s)
{
    return &s->of->conn->proxy->of->decide;
}

static void log_stage(struct stage *s, const char *event, json_t *more)
{
    struct decide_about a = conn_about(s->of->conn, event, s->toxic, 0);
    decide_log(decide_of(s), event, &a, more);
}

struct stage *stage_new(struct link *of, struct toxic *t)
{
    struct stage *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->of = of;
    s->toxic = toxic_ref(t);
    s->timer.on_fire = on_timer;
    list_init(&s->in);
    list_init(&s->link);
    s->begun_us = now_us(s);
    struct decide_about a = conn_about(of->conn, "toxicity", t, 0);
    s->applied = decide_unit(decide_of(s), &a) < t->toxicity;
    t->connections += s->applied;
    if (t->toxicity < 1)
        decide_log(decide_of(s), "toxicity", &a, json_pack("{s:b}", "applied", (int)s->applied));
    return s;
}

void stage_free(struct stage *s)
{
    sched_clear(sched_of(s), &s->timer);
    list_for_each_safe (it, &s->in) {
        list_remove(it);
        free(container_of(it, struct chunk, link));
    }
    list_remove(&s->link);
    toxic_unref(s->toxic);
    free(s);
}

static struct chunk *head(const struct stage *s)
{
    return list_empty(&s->in) ? NULL : container_of(s->in.next, struct chunk, link);
}

static void pass_all(struct stage *s)
{
    for (struct chunk *c; !s->of->conn->dead && (c = head(s)) != NULL;)
        stage_pass(s, c, c->len);
}

void stage_run(struct stage *s)
{
    if (s->applied && s->toxic->kind->run)
        s->toxic->kind->run(s);
    else
        pass_all(s);
}

/* The two directions' ends and cuts come after what was read before, so they wait as data does. */
void stage_latency(struct stage *s)
{
    for (struct chunk *c; !s->of->conn->dead && (c = head(s)) != NULL;) {
        if (c->timed != s) {
            struct decide_about a = conn_about(s->of->conn, "jitter", s->toxic, c->at);
            int64_t jitter_us = s->toxic->v[LATENCY_JITTER] * 1000;
            int64_t delay =
                s->toxic->v[LATENCY_LATENCY] * 1000 + decide_spread(decide_of(s), &a, jitter_us);
            c->timed = s;
            c->due_us = c->came_us + delay;
            if (jitter_us)
                decide_log(decide_of(s), "latency", &a,
                           json_pack("{s:I, s:I}", "at", (json_int_t)c->at, "delay_us",
                                     (json_int_t)delay));
        }
        if (c->due_us > now_us(s)) {
            wake_at(s, c->due_us);
            return;
        }
        c->came_us = now_us(s);
        stage_pass(s, c, c->len);
    }
}

/* In pieces of a tenth of a second; rate is in kilobytes (1,000) a second, 0: no limit. */
void stage_bandwidth(struct stage *s)
{
    int64_t rate = s->toxic->v[BANDWIDTH_RATE];
    for (struct chunk *c; !s->of->conn->dead && (c = head(s)) != NULL;) {
        size_t n = c->len;
        if (c->kind == CHUNK_DATA && rate) {
            if (n > (size_t)rate * 100)
                n = (size_t)rate * 100;
            if (c->timed != s) {
                c->timed = s;
                c->due_us =
                    (s->free_us > now_us(s) ? s->free_us : now_us(s)) + (int64_t)n * 1000 / rate;
            }
            if (c->due_us > now_us(s)) {
                wake_at(s, c->due_us);
                return;
            }
            s->free_us = c->due_us;
            c->timed = NULL;
        }
        c->came_us = now_us(s);
        stage_pass(s, c, n);
    }
}

void stage_slow_close(struct stage *s)
{
    for (struct chunk *c; !s->of->conn->dead && (c = head(s)) != NULL;) {
        if (c->kind != CHUNK_DATA) {
            if (c->timed != s) {
                c->timed = s;
                c->due_us = now_us(s) + s->toxic->v[SLOW_CLOSE_DELAY] * 1000;
            }
            if (c->due_us > now_us(s)) {
                wake_at(s, c->due_us);
                return;
            }
        }
        stage_pass(s, c, c->len);
    }
}

static void drop_data(struct stage *s, bool hold_ends)
{
    list_for_each_safe (it, &s->in) {
        struct chunk *c = container_of(it, struct chunk, link);
        if (c->kind == CHUNK_DATA)
            stage_drop(s, c);
        else if (hold_ends)
            s->of->held = true;
        else
            stage_pass(s, c, 0);
    }
}

static void end_with(struct stage *s, enum chunk_kind kind, const char *event)
{
    log_stage(s, event, NULL);
    if (kind == CHUNK_RESET)
        conn_kill(s->of->conn, true);
    else
        stage_pass_new(s, CHUNK_CUT);
}

/* Nothing passes; after the timeout both sides are closed (0: when the toxic is removed). */
void stage_timeout(struct stage *s)
{
    int64_t timeout_us = s->toxic->v[TIMEOUT_TIMEOUT] * 1000;
    drop_data(s, false);
    if (!timeout_us || s->done)
        return;
    if (now_us(s) < s->begun_us + timeout_us) {
        wake_at(s, s->begun_us + timeout_us);
        return;
    }
    s->done = true;
    end_with(s, CHUNK_CUT, "timeout");
}

void stage_timeout_removed(struct stage *s)
{
    end_with(s, CHUNK_CUT, "timeout_removed");
}

/* Nothing passes; after the timeout both sides are reset. */
void stage_reset(struct stage *s)
{
    int64_t at_us = s->begun_us + s->toxic->v[RESET_TIMEOUT] * 1000;
    drop_data(s, true);
    if (now_us(s) < at_us)
        wake_at(s, at_us);
    else
        end_with(s, CHUNK_RESET, "reset");
}

/* Where the stream is cut depends on nothing but the seed: each slice's size comes from its number.
 * The delay (µs) stands before each slice but the first. */
void stage_slicer(struct stage *s)
{
    for (struct chunk *c; !s->of->conn->dead && (c = head(s)) != NULL;) {
        if (c->kind != CHUNK_DATA || s->toxic->v[SLICER_SIZE] == 0) {
            stage_pass(s, c, c->len);
            continue;
        }
        if (s->next_at <= c->at) {
            if (s->count && s->free_us == 0 && s->toxic->v[SLICER_DELAY]) {
                s->free_us = now_us(s) + s->toxic->v[SLICER_DELAY];
            }
            if (s->free_us > now_us(s)) {
                wake_at(s, s->free_us);
                return;
            }
            s->free_us = 0;
            struct decide_about a = conn_about(s->of->conn, "slice", s->toxic, s->count++);
            int64_t size = s->toxic->v[SLICER_SIZE] +
                           decide_spread(decide_of(s), &a, s->toxic->v[SLICER_VARIATION]);
            s->next_at = c->at + (uint64_t)(size > 1 ? size : 1);
        }
        uint64_t n = s->next_at - c->at;
        stage_pass(s, c, n < c->len ? (size_t)n : c->len);
    }
}

/* The first `bytes` of the direction pass, then both sides are closed. */
void stage_limit(struct stage *s)
{
    uint64_t limit = (uint64_t)s->toxic->v[LIMIT_BYTES];
    for (struct chunk *c; !s->done && !s->of->conn->dead && (c = head(s)) != NULL;) {
        bool data = c->kind == CHUNK_DATA;
        uint64_t left = limit > s->count ? limit - s->count : 0;
        size_t n = data && c->len > left ? (size_t)left : c->len;
        s->count += n;
        if (n || !data)
            stage_pass(s, c, n);
        if (data && s->count >= limit) {
            s->done = true;
            end_with(s, CHUNK_CUT, "limit_data");
        }
    }
    if (!s->of->conn->dead && s->done)
        drop_data(s, true);
}

/* Nothing passes, not even that a side has closed; neither learns of it. */
void stage_blackhole(struct stage *s)
{
    drop_data(s, true);
}

/* After `bytes` the direction ends (the receiver reads an end of file); what comes later is
 * swallowed, and the other direction goes on. */
void stage_half_close(struct stage *s)
{
    uint64_t bytes = (uint64_t)s->toxic->v[HALF_CLOSE_BYTES];
    for (struct chunk *c; s->count < bytes && !s->of->conn->dead && (c = head(s)) != NULL;) {
        uint64_t left = bytes - s->count;
        size_t n = c->len > left ? (size_t)left : c->len;
        s->count += n;
        stage_pass(s, c, n);
    }
    if (s->of->conn->dead || s->count < bytes)
        return;
    if (!s->done) {
        s->done = true;
        log_stage(s, "half_close", NULL);
        stage_pass_new(s, CHUNK_END);
    }
    drop_data(s, false);
}

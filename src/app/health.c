#include "app/health.h"

#include "app/worker.h"

enum { CLOCK_TICK_US = 250000 };

static void run_probe(struct share_job *j, struct orders *o)
{
    struct health *h = container_of(j, struct health, probe_job);
    j->rc = o->ops->probe(o, &h->probe_ctx);
}

static void run_beat(struct share_job *j, struct orders *o)
{
    struct health *h = container_of(j, struct health, beat_job);
    struct worker *w = container_of(h, struct worker, health);
    /* life never changes: any thread */
    j->rc = o->ops->beat(o, &h->beat_ctx, str_of(w->life), h->own_age_ms, &h->fleet_age_ms);
}

static void show(struct worker *w)
{
    metric_set(w->metrics.breaker_open, w->health.breaker.state != BREAKER_CLOSED);
}

static void note(struct worker *w, bool good)
{
    struct health *h = &w->health;
    enum breaker_state before = h->breaker.state;
    if (good)
        breaker_success(&h->breaker, w->sched->now_us);
    else
        breaker_failure(&h->breaker, w->sched->now_us);
    enum breaker_state now = h->breaker.state;
    show(w);
    if (now == before)
        return;
    if (now == BREAKER_CLOSED)
        log_info("PostgreSQL is usable again");
    else if (now == BREAKER_OPEN && before == BREAKER_CLOSED)
        log_error("PostgreSQL is taken for unusable; nothing is received");
    if (now == BREAKER_OPEN && !w->canceled)
        sched_set(w->sched, &h->probe_timer, h->breaker.open_until_us);
    worker_changed(w);
}

/* A deadline does say something: a server that accepts nothing and refuses nothing lets each
 * connect run into it. */
static bool says_nothing(int rc)
{
    return rc == ERR_CANCELED || rc == ERR_OVERLOAD;
}

void health_saw(struct worker *w, int rc)
{
    if (!says_nothing(rc))
        note(w, rc >= 0 || rc == ERR_CONFLICT || rc == ERR_INVALID || rc == ERR_NOTFOUND);
}

static void on_probe_time(struct timer *t)
{
    struct worker *w = container_of(t, struct worker, health.probe_timer);
    struct health *h = &w->health;
    if (h->probing || h->breaker.state == BREAKER_CLOSED)
        return;
    if (!breaker_allow(&h->breaker, w->sched->now_us)) {
        sched_set(w->sched, t, h->breaker.open_until_us);
        return;
    }
    h->probing = true;
    ctx_init(&h->probe_ctx, &w->root, w->sched->now_us + w->cfg.probe_us);
    share_submit(w, &h->probe_job);
}

static void on_probed(struct share_job *j)
{
    struct health *h = container_of(j, struct health, probe_job);
    struct worker *w = container_of(h, struct worker, health);
    h->probing = false;
    /* Any answer closes; none, or none in time, opens once more. */
    note(w, j->rc >= 0 || j->rc == ERR_CONFLICT);
    /* A transaction from before failed meanwhile and opened it once more: this answer counted for
     * nothing, and the timer may have found the probe still out. */
    if (h->breaker.state != BREAKER_CLOSED && !w->canceled && h->probe_timer.slot == 0)
        sched_set(w->sched, &h->probe_timer, h->breaker.open_until_us);
    worker_changed(w);
}

static void on_beat_time(struct timer *t)
{
    struct worker *w = container_of(t, struct worker, health.beat_timer);
    struct health *h = &w->health;
    if (!h->beating) {
        h->beating = true;
        h->own_age_ms = hand_oldest_age_ms(w);
        ctx_init(&h->beat_ctx, &w->root, w->sched->now_us + HEALTH_BEAT_US);
        share_submit(w, &h->beat_job);
    }
    sched_set_in(w->sched, t, HEALTH_BEAT_US);
}

static void on_beaten(struct share_job *j)
{
    struct health *h = container_of(j, struct health, beat_job);
    struct worker *w = container_of(h, struct worker, health);
    h->beating = false;
    if (j->rc >= 0) {
        h->fleet_ms = h->fleet_age_ms;
        h->fleet_at_us = w->sched->now_us;
    }
    worker_changed(w);
}

int64_t health_fleet_age_ms(const struct worker *w)
{
    const struct health *h = &w->health;
    int64_t since = w->sched->now_us - h->fleet_at_us;
    if (h->fleet_at_us == 0 || since > 2 * HEALTH_BEAT_US + HEALTH_BEAT_US / 2)
        return -1;
    return h->fleet_ms > 0 ? h->fleet_ms + since / 1000 : 0;
}

/* --- how long both were usable --- */

static int64_t sample_every_us(const struct worker *w)
{
    int64_t step = w->cfg.max_hold_us / (HEALTH_SAMPLES / 2);
    return step > CLOCK_TICK_US ? step : CLOCK_TICK_US;
}

static void sample(struct worker *w)
{
    struct health *h = &w->health;
    h->samples[h->next_sample].wall_ms = worker_wall_ms(w);
    h->samples[h->next_sample].usable_us = h->usable_us;
    h->next_sample = (h->next_sample + 1) % HEALTH_SAMPLES;
    if (h->n_samples < HEALTH_SAMPLES)
        h->n_samples++;
    h->last_sample_us = w->sched->now_us;
}

static void on_clock(struct timer *t)
{
    struct worker *w = container_of(t, struct worker, health.clock_timer);
    struct health *h = &w->health;
    int64_t passed = w->sched->now_us - h->last_tick_us;
    h->last_tick_us = w->sched->now_us;
    /* A process that was stopped meanwhile does not know what was usable. */
    if (health_usable(w) && w->intake.usable && passed < 4 * CLOCK_TICK_US)
        h->usable_us += passed;
    if (w->sched->now_us - h->last_sample_us >= sample_every_us(w))
        sample(w);
    sched_set_in(w->sched, t, CLOCK_TICK_US);
}

int64_t health_usable_since_us(struct worker *w, int64_t wall_ms)
{
    struct health *h = &w->health;
    int64_t at = h->usable_us;
    /* The oldest sample that is not before wall_ms. */
    for (int i = 0; i < h->n_samples; i++) {
        int at_i = (h->next_sample - 1 - i + HEALTH_SAMPLES) % HEALTH_SAMPLES;
        if (h->samples[at_i].wall_ms < wall_ms)
            break;
        at = h->samples[at_i].usable_us;
    }
    return h->usable_us - at;
}

bool health_usable(const struct worker *w)
{
    return w->health.breaker.state == BREAKER_CLOSED;
}

void health_start(struct worker *w)
{
    struct health *h = &w->health;
    *h = (struct health){
        .probe_timer.on_fire = on_probe_time,
        .beat_timer.on_fire = on_beat_time,
        .clock_timer.on_fire = on_clock,
        .probe_job = {.class = SHARE_BACK, .run = run_probe, .on_done = on_probed},
        .beat_job = {.class = SHARE_BACK, .run = run_beat, .on_done = on_beaten},
        .last_tick_us = w->sched->now_us,
    };
    breaker_init(&h->breaker, w->cfg.breaker_threshold, w->cfg.breaker_cooldown_us);
    retry_budget_init(&h->retries, w->cfg.retry_percent, w->cfg.retry_floor, w->sched->now_us);
    sample(w);
    show(w);
    sched_set(w->sched, &h->beat_timer, w->sched->now_us);
    sched_set_in(w->sched, &h->clock_timer, CLOCK_TICK_US);
}

void health_stop(struct worker *w)
{
    sched_clear(w->sched, &w->health.probe_timer);
    sched_clear(w->sched, &w->health.beat_timer);
    sched_clear(w->sched, &w->health.clock_timer);
}

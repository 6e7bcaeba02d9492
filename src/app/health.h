/* Whether PostgreSQL is usable: the breaker over the order transactions, its probe (an empty call
 * of the order function, rule 21), the retry budget (rule 32), the beat of this life (rule 23) with
 * the age of what is in hand, here and in the whole fleet (rule 26), and how long both PostgreSQL
 * and the queue have been usable since a given time (rule 30). Loop thread. */
#pragma once

#include "app/share.h"
#include "base/ctx.h"
#include "base/sched.h"
#include "core/breaker.h"
#include "core/retry.h"

#define HEALTH_SAMPLES 1024
#define HEALTH_BEAT_US 2000000

struct health {
    struct breaker breaker;
    struct retry_budget retries;
    struct timer probe_timer, beat_timer, clock_timer;
    struct share_job probe_job, beat_job;
    struct ctx probe_ctx, beat_ctx;
    bool probing, beating;
    int64_t own_age_ms, fleet_age_ms; /* of the beat under way */
    int64_t fleet_ms, fleet_at_us;    /* as last told; 0: never */
    /* The usable time, sampled: in between it is interpolated downwards, so a hold is never taken
     * for longer than it was. */
    struct {
        int64_t wall_ms, usable_us;
    } samples[HEALTH_SAMPLES];
    int n_samples, next_sample;
    int64_t usable_us, last_tick_us, last_sample_us;
};

void health_start(struct worker *w);
void health_stop(struct worker *w); /* no timers any more; jobs under way still end */
/* The result of an order transaction. Conflicts and own failures are answers; a deadline is none;
 * a call that was cancelled or not made says nothing. */
void health_saw(struct worker *w, int rc);
bool health_usable(const struct worker *w);
/* The oldest message in the hands of any live worker, by enqueue time: 0 none, -1 not known. A beat
 * is HEALTH_BEAT_US behind; what another took since is not in it. */
int64_t health_fleet_age_ms(const struct worker *w);
/* For how long of the time since wall_ms both were usable. */
int64_t health_usable_since_us(struct worker *w, int64_t wall_ms);

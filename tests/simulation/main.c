/* simulation [--seed N] [--seeds N] [--from N] [--talk]: one run of that seed, or so many from one
 * on, one after the other (2,000 from 1; 50,000 with SECKILL_FULL). What is wrong is told with its
 * seed, and the exit status is 1. --talk tells what happened. */
#include "simulation.h"

#include "base/log.h"
#include <stdlib.h>
#include <string.h>

static struct sim sim;
static struct {
    long long asked, accepted, bought, cancelled, lost, lives;
} all;

static void count(const struct sim *x)
{
    for (int i = 0; i < x->n_asks; i++) {
        const struct sim_ask *a = &x->asks[i];
        all.asked += a->posted;
        all.accepted += a->known.accepted;
        all.bought += a->ended && a->end.state == VERDICT_SUCCEEDED;
        all.cancelled += a->ended && a->end.state == VERDICT_CANCELLED;
        all.lost += a->ended && (a->end.reason == REASON_LOST_RESERVATION ||
                                 a->end.reason == REASON_LOST_ORDER);
    }
    all.lives += x->lives + x->api_lives;
}

static bool run(uint64_t seed, bool talk)
{
    struct sim *x = &sim;
    struct sim_plan plan = sim_plan_of(seed);
    sim_init(x, &plan);
    x->talk = talk;
    for (int step = 0; step < plan.steps; step++) {
        sim_buyers_step(x);
        sim_chaos_step(x);
        sim_run(x, (int64_t)rng_below(&x->rng, sim_chance(x, 30) ? 4 * S : 40 * MS));
    }
    sim_inquest(x);
    bool right = !*x->wrong;
    if (!right)
        printf("seed %llu: %s (%s queue%s%s%s%s)\n", (unsigned long long)seed, x->wrong,
               plan.own_broker ? "own" : "Redis's", plan.strict ? ", strict" : "",
               x->redis_lost ? ", Redis lost" : "", x->pg_lost ? ", PostgreSQL lost" : "",
               x->queue_lost ? ", the queue lost" : "");
    count(x);
    sim_deinit(x);
    return right;
}

int main(int argc, char **argv)
{
    const char *full = getenv("SECKILL_FULL");
    uint64_t from = 1, n = full && *full ? 50000 : 2000;
    bool talk = false;
    int wrong = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--talk") == 0) {
            talk = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
            from = strtoull(argv[++i], NULL, 10);
            n = 1;
        } else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0) {
            n = strtoull(argv[++i], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--from") == 0) {
            from = strtoull(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "simulation [--seed N] [--seeds N] [--from N] [--talk]\n");
            return 2;
        }
    }
    if (!talk)
        log_setup("simulation", "", LOG_ERROR + 1);
    for (uint64_t seed = from; seed < from + n && wrong < 10; seed++)
        wrong += !run(seed, talk);
    printf("%lld requests: %lld accepted, %lld orders stand, %lld were cancelled, %lld lost; %lld "
           "processes\n",
           all.asked, all.accepted, all.bought, all.cancelled, all.lost, all.lives);
    printf("%llu seeds from %llu: %d wrong\n", (unsigned long long)n, (unsigned long long)from,
           wrong);
    return wrong > 0;
}

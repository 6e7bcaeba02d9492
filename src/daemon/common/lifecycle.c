#include "daemon/common/lifecycle.h"

#include "base/crashpoint.h"
#include "base/log.h"
#include <signal.h>
#include <unistd.h>

#define START_POLL_US 20000

static void on_timer(struct timer *t)
{
    struct lifecycle *c = container_of(t, struct lifecycle, timer);
    if (c->phase == LIFECYCLE_ENDPOINTS) {
        c->phase = LIFECYCLE_DRAINING;
        log_info("draining: no new connections");
        c->begin_drain(c);
        crashpoint("drain_begun");
    } else if (c->phase == LIFECYCLE_STARTING) {
        if (c->is_started(c)) {
            c->phase = LIFECYCLE_SERVING;
            admin_set_started(c->admin);
            log_info("started");
        } else {
            sched_set_in(loop_sched(c->loop), t, START_POLL_US);
        }
    }
}

static void on_signal(struct loop_signal *s, int signo)
{
    struct lifecycle *c = signo == SIGINT ? container_of(s, struct lifecycle, interrupt)
                                          : container_of(s, struct lifecycle, term);
    if (c->phase >= LIFECYCLE_ENDPOINTS) {
        log_warn("a second signal: ending at once", LOG_I("signal", signo));
        _exit(1);
    }
    log_info("draining: not ready, still serving", LOG_I("signal", signo));
    crashpoint("drain_asked");
    c->phase = LIFECYCLE_ENDPOINTS;
    admin_set_draining(c->admin);
    sched_set_in(loop_sched(c->loop), &c->timer, c->endpoints_us);
}

int lifecycle_init(struct lifecycle *c)
{
    c->phase = LIFECYCLE_STARTING;
    c->timer = (struct timer){.on_fire = on_timer};
    c->term.on_signal = c->interrupt.on_signal = on_signal;
    int rc = loop_signal_add(c->loop, &c->term, SIGTERM);
    return rc < 0 ? rc : loop_signal_add(c->loop, &c->interrupt, SIGINT);
}

void lifecycle_start(struct lifecycle *c)
{
    sched_set_in(loop_sched(c->loop), &c->timer, 0);
}

void lifecycle_drained(struct lifecycle *c)
{
    if (++c->drained < c->n_loops)
        return;
    log_info("drained");
    crashpoint("drained");
    loop_stop(c->loop);
}

void lifecycle_deinit(struct lifecycle *c)
{
    if (!c->loop)
        return;
    sched_clear(loop_sched(c->loop), &c->timer);
    loop_signal_remove(c->loop, &c->term);
    loop_signal_remove(c->loop, &c->interrupt);
}

/* The admin port every program has: /livez /readyz /startupz /metrics /config. On the program's
 * control loop. With a token file, /metrics and /config require "Authorization: Bearer <token>";
 * the three probes never do (they name a failing check, nothing else). A readiness result is used
 * for at most 200 ms; /readyz answers 503 with JSON that names what fails. */
#pragma once

#include "base/conf.h"
#include "loop/loop.h"

struct admin;

/* One readiness check on the real path (an EVALSHA on a probe key, a PostgreSQL round trip),
 * embedded in the program. */
struct admin_check {
    const char *name;
    /* Starts the check; admin_check_done is called later, never inside. Not started again while one
     * is under way. */
    void (*start)(struct admin_check *c);
    struct admin *admin; /* internal from here */
    bool running, ok;
    int64_t at_us; /* of the last result; 0: none yet */
    char why[256];
};

struct admin_config {
    const char *listen, *token_file; /* a listen address that is not loopback requires a token */
    const struct conf *conf;
    struct admin_check **checks;
    int n_checks;
};
/* NULL with a message in err. The config's strings and checks are borrowed until admin_free. */
struct admin *admin_new(struct loop *l, const struct admin_config *c, char *err, size_t err_cap);
int admin_port(const struct admin *a);
/* rc 0: ready; with a why, too: then it is told as "degraded". why: copied, may be NULL. */
void admin_check_done(struct admin_check *c, int rc, const char *why);
void admin_set_started(struct admin *a);  /* /startupz turns 200 */
void admin_set_draining(struct admin *a); /* /readyz turns 503 at once */
/* No check may be under way. */
void admin_free(struct admin *a);

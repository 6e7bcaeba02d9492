/* The admin port every program has: /livez /readyz /startupz /metrics /config. On the program's
 * control loop. */
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
    int64_t at_us;
};

struct admin_config {
    const char *listen, *token_file; /* a listen address that is not loopback requires a token */
    const struct conf *conf;
    struct admin_check **checks;
    int n_checks;
};
struct admin *admin_new(struct loop *l, const struct admin_config *c, char *err, size_t err_cap);
int admin_port(const struct admin *a);
void admin_check_done(struct admin_check *c, int rc, const char *why);
void admin_set_started(struct admin *a);  /* /startupz turns 200 */
void admin_set_draining(struct admin *a); /* /readyz turns 503 at once */
void admin_free(struct admin *a);

/* The result topic, of whatever kind the queue is. Belongs to one loop. Nothing waits for it: a
 * program starts, works and is ready without it. */
#pragma once

#include "daemon/settings.h"
#include "loop/loop.h"
#include "port/results.h"

/* Zero it first: then deinit and complaint are harmless before and after. */
struct result_topic {
    struct results *port; /* NULL: there is none, or results are not enabled */
    int kind;             /* enum settings_queue */
};

/* 0, or an error with what is wrong in err. Connects in the background. */
int result_topic_init(struct result_topic *t, struct loop *l, const struct settings *s, char *err,
                      size_t err_cap);
/* The clean end, after the last publish: op.on_done, rc 0 at the end or at its deadline. False:
 * there is nothing to end, and on_done does not come. */
bool result_topic_close(struct result_topic *t, struct op *op);
/* Calls under way complete first, inside this call. */
void result_topic_deinit(struct result_topic *t);
/* It can be used, as far as is known. */
bool result_topic_ready(const struct result_topic *t);
/* What is wrong now, for people, with what mends it; NULL: nothing, or nobody knows. */
const char *result_topic_complaint(const struct result_topic *t);

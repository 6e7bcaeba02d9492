/* PROCESSING, told to the buyers of what was just received (rule 6): one call per item, fire and
 * forget. Best effort: when too many are under way it is left out. Loop thread. */
#pragma once

#include "core/event.h"
#include "port/stock.h"

#define PROGRESS_MAX 256
#define PROGRESS_UNDER_WAY_MAX 16

struct worker;

struct progress {
    struct worker *w;
    struct item item;
    int n;
    struct stock_settle_row rows[PROGRESS_MAX];
};
void progress_init(struct progress *p, struct worker *w);
/* Sends what is collected when the item changes or it is full. */
void progress_add(struct progress *p, const struct event *e);
void progress_send(struct progress *p);

/* Commands that were accepted and that the queue has passed (rule 27): it may have lost them, and
 * whoever was told 202 does not ask again. They are handed to PostgreSQL, which parks what it does
 * not know (the sweep runs that), and are forgotten in Redis. What PostgreSQL knows is just
 * forgotten. docs/decisions/0026.
 *
 *   READ (a page) → PARK → FORGET → READ … → end      any failure → end: its turn comes again
 *
 * One that PostgreSQL refuses by its own fault (rule 20) stays and keeps none of its neighbours.
 *
 * Two workers may have the same in hand: the inbox decides, and forgetting twice is forgetting.
 * Embedded in recover; loop thread. */
#pragma once

#include "app/command.h"
#include "app/share.h"

#define REMEMBERED_PAGES 64 /* in one look */

struct worker;

struct remembered {
    struct worker *w;
    struct item item;
    int pages;
    int handed_over; /* out: that PostgreSQL did not know */
    bool all;        /* out: PostgreSQL knows each that was asked for, or has refused it */
    void (*on_end)(struct remembered *r);

    struct stock_remembered page;
    struct stock_command rows[STOCK_REMEMBERED_MAX];
    struct orders_command commands[STOCK_REMEMBERED_MAX]; /* cancels first, then payments */
    int n_commands, n_cancels, parked, faulty;
    struct uuid ids[STOCK_REMEMBERED_MAX]; /* to be forgotten */
    int n_ids;
    struct share_job job;
    struct ctx ctx;
    struct stock_forget forget;
};

/* Those remembered before that time, by the store's clock. on_end once, never inside. */
void remembered_start(struct remembered *r, struct worker *w, struct item item, int64_t before_ms,
                      void (*on_end)(struct remembered *r));
/* These have their outcome in PostgreSQL: fire and forget, since what stays is looked at later. */
void remembered_forget(struct worker *w, struct item item, const struct uuid *message_ids, int n);

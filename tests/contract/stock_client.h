/* The stock port's operations as the suite uses them: each waits for its completion. */
#pragma once

#include "base/err.h"
#include "stock_backend.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000
#define DAY_MS INT64_C(86400000)

struct uuid client_uuid(int64_t kind, int64_t number);
#define REQUEST(n) client_uuid(1, n)
#define RESERVATION(n) client_uuid(2, n)

int64_t client_store_ms(void); /* the store's clock */
int client_warm(struct item item, int64_t total, int64_t starts_in_ms, int64_t ends_in_ms);
int client_control(struct item item, enum stock_state to);
struct item client_sale(int64_t total); /* a new item, warmed with epoch 1, open */
/* ids are made of n: RESERVATION(n), order id n; the request id is REQUEST(request). */
int client_reserve(struct item item, int64_t user, int64_t request, int64_t n,
                   struct stock_reserve *r);
int client_reserve_until(struct item item, int64_t user, int64_t request, int64_t n,
                         int64_t give_up_us, struct stock_reserve *r);
/* As client_reserve, knowing that of the store. */
int client_reserve_past(struct item item, int64_t user, int64_t n, struct stock_past past,
                        struct stock_reserve *r);
struct stock_settle_row client_row(int64_t user, int64_t request, int64_t n, struct verdict v,
                                   bool give_back);
int client_settle(struct item item, struct stock_settle_row *rows, int n,
                  struct item_version *version);
/* One row: its result. */
enum stock_settled client_settle_one(struct item item, struct stock_settle_row row);
int client_progress(struct item item, struct stock_settle_row *rows, int n);
int client_mark(struct item item, int64_t user, int64_t request, int64_t n,
                enum reservation_status to);
int client_release(struct item item, int64_t user, int64_t request, int64_t n,
                   struct item_version *version);
int client_claim(struct item item, int64_t user, int64_t request, int64_t n,
                 struct reservation *found);
int client_republished(struct item item, int64_t user, int64_t request, int64_t n,
                       const char *queue_id);
int client_refuse(struct item item, int64_t user, int64_t request, int64_t n);
/* message_id RESERVATION(n), at most 40 */
int client_remember(struct item item, int64_t n, const char *body);
/* A page; r: cursor and rows. */
int client_remembered(struct item item, int64_t before_ms, struct stock_remembered *r);
int client_forget(struct item item, int64_t n);
int client_lookup(struct item item, int64_t user, int64_t request, struct reservation *found);
int client_pending(struct item item, int64_t before_ms, int offset, int max,
                   struct stock_pending *p);
int client_item(struct item item, struct stock_item_get *g);
int client_items(struct item *items, int max, int *n); /* all pages, each once */
int client_unlist(struct item item);
int client_report(struct item item);
int client_reports(struct item *items, int *n); /* at most STOCK_REPORTS_MAX */
int client_unreport(struct item item);
int client_relist(const struct item *items, int n);
int client_rebuild_begin(struct item item, int64_t epoch, int64_t total, enum stock_state after,
                         bool *was_there);
int client_rebuild_restore(struct item item, int64_t epoch, int64_t step,
                           const struct stock_hold *rows, int n);
int client_rebuild_end(struct item item, int64_t epoch, int64_t step, int64_t free);
int client_buyers(struct item item, int64_t *users, int max); /* all pages; how many, or an error */
int client_slot(int slot, const char *nonce, int64_t highest_ms, int64_t ttl_ms, int64_t *floor_ms);
int client_probe(void);
int client_inspect(struct item item, struct stock_inspect *o);
/* All pages, each user once; how many. */
int client_holders(struct item item, struct stock_holder *rows, int max);
int client_held(struct item item, struct stock_held_row *rows, int n, struct item_version *v);
int client_mend(struct item item, int64_t user, int64_t request, int64_t n);
int client_lower(struct item item, int64_t seen, int64_t to, int64_t *taken);
int client_set_total(struct item item, int64_t seen, int64_t to, struct stock_set_total *o);
void client_rest(int64_t us);

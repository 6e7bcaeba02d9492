/* seckill-api: the buyers' write path. Internal to daemon/api.
 *
 * One control loop (main thread): signals, admin port, the instance number, the hint loader. n data
 * loops (threads), which share nothing but what ARCHITECTURE.md lists: each has its own HTTP server
 * on the common port (SO_REUSEPORT), Redis connection, publisher, token verifier, flow pool and
 * hints. */
#pragma once

#include "adapter/http/server.h"
#include "adapter/redis_stock/redis_stock.h"
#include "app/catalogue_watch.h"
#include "app/hint_loader.h"
#include "app/reserve.h"
#include "app/send_command.h"
#include "app/slot.h"
#include "core/location_token.h"
#include "daemon/api/hint_mail.h"
#include "daemon/api/queue_watch.h"
#include "daemon/common/event_queue.h"
#include "daemon/common/lifecycle.h"
#include "daemon/common/payment_auth.h"
#include "daemon/common/serve.h"
#include "daemon/settings.h"
#include "port/auth.h"

struct api;
struct jwt_keys;

/* --- a data loop --- */
struct data_loop {
    struct api *api;
    struct loop *loop;
    struct serve_thread thread;
    struct http_service service;
    struct http_server *server;
    struct stock *stock;
    struct event_queue queue; /* publishes: commands; orders, too, where the store does not */
    struct queue_report queue_report;
    struct op queue_closing;
    struct auth *auth;
    struct rng rng;
    struct retry_budget budget;
    struct hints hints;
    struct past past;
    struct reporter reporter;
    struct hint_mailbox mailbox;
    struct reserve_pool pool;
    struct send_pool cancels, payments;
    bool pool_ready, draining, cut;
    struct loop_post drain, drained;
    struct metric *refused_draining, *refused_no_ids, *refused_no_catalogue;
};

/* Everything but starting the thread. listen: the address with its port. 0, or an error with a
 * message. */
int data_loop_init(struct data_loop *d, struct api *api, int number, const char *listen, char *err,
                   size_t err_cap);
/* Stops the thread, wherever it is, and frees everything; harmless on what was never initialised.
 */
void data_loop_deinit(struct data_loop *d);
/* From control: no new connections, finish what is in hand; then control_on_drained. */
void data_loop_drain(struct data_loop *d);

/* --- POST /v1/orders (orders.c) --- */
void orders_on_request(struct http_service *s, struct http_exchange *x);
void orders_on_answer(struct reserve_pool *p, void *viewer, const struct reserve_answer *a);

/* --- cancels and payments (commands.c) --- */
void commands_on_cancel(struct http_service *s, struct http_exchange *x);
void commands_on_payment(struct http_service *s, struct http_exchange *x);
void commands_on_cancel_answer(struct send_pool *p, void *viewer, const struct send_answer *a);
void commands_on_payment_answer(struct send_pool *p, void *viewer, const struct send_answer *a);

/* --- the control loop --- */
struct control {
    struct api *api;
    struct loop *loop;
    struct lifecycle life;
    struct stock *stock;
    struct rng rng;
    struct admin *admin;
    struct slot slot;
    struct hint_loader loader;
    struct catalogue_watch catalogue;
    bool catalogue_started, slot_started, loader_started, news_started;
    struct hint_mailbox mailbox;
    /* readiness */
    struct admin_check redis_check, ids_check;
    struct queue_watch queue;
    struct admin_check *checks[3];
    struct stock_probe probe;
    struct loop_task ids_task;
};
int control_init(struct control *c, struct api *api, char *err, size_t err_cap);
void control_run(struct control *c); /* until drained */
/* What the data loops need no more; the admin port stays. */
void control_deinit(struct control *c);
void control_free_admin(struct control *c);
/* On the control loop: a data loop has nothing left in hand. */
void control_on_drained(struct loop_post *p);

/* --- the process --- */
struct api {
    struct settings settings;
    struct conf conf;
    const char *ports_file; /* NULL: none is written */
    struct jwt_keys *keys;
    struct payment_auth payment_auth;
    struct location_keys location_keys;
    struct order_id_source ids; /* shared */
    struct control control;
    struct data_loop *loops;
    int n_loops;
};

/* The routes: from the request to the look-up, from its answer to the response. What belongs to one
 * buyer is never stored by anybody on the way; what an item looks like may be, for a second. */
#include "base/panic.h"
#include "base/parse.h"
#include "daemon/common/bearer.h"
#include "daemon/query/query.h"

#define NO_STORE STR("Cache-Control: no-store\r\n")
#define NO_STORE_AGAIN STR("Cache-Control: no-store\r\nRetry-After: 1\r\n")
#define PUBLIC_1S STR("Cache-Control: public, max-age=1\r\n")
#define NONE ((struct str){NULL, 0})

static struct query_loop *loop_of(struct http_service *s)
{
    return container_of(s, struct query_loop, service);
}

/* request_id: NULL where there is none. */
static void refuse(struct http_exchange *x, enum answer a, const struct uuid *request_id,
                   const char *why)
{
    http_problem_extra(x, a, request_id, why, NONE, NO_STORE);
}

/* False: answered. */
static bool take_item(struct http_exchange *x, struct item *item)
{
    if (parse_i64(x->params[0], 1, INT64_MAX, &item->activity_id) == 0 &&
        parse_i64(x->params[1], 1, INT64_MAX, &item->sku_id) == 0)
        return true;
    refuse(x, ANSWER_INVALID_ARGUMENT, NULL, "activity and SKU are numbers from 1 to 2^63-1");
    return false;
}

static void on_gone(struct http_exchange *x)
{
    lookup_gone(x->viewer);
}

/* Of a look-up that was submitted, or not. */
static void watch(struct http_exchange *x, int rc, struct lookup *l, const struct uuid *request_id)
{
    if (rc == LOOKUP_STARTED) {
        x->viewer = l;
        x->on_gone = on_gone;
    } else {
        refuse(x, rc == ERR_OVERLOAD ? ANSWER_OVERLOADED : ANSWER_DEPENDENCY_UNAVAILABLE,
               request_id, NULL);
    }
}

/* The token in the query, "t=…" (core/location_token.h). 0 there is one, 1 there is none,
 * ERR_INVALID: there is one that nobody made. Other parameters are nobody's. */
static int take_token(struct str query, struct location_token *t)
{
    struct str word;
    int rc = 1;
    while (query.len) {
        query = str_split(query, '&', &word);
        if (!str_starts(word, STR("t=")))
            continue;
        if (rc == 0 || location_token_parse((struct str){word.ptr + 2, word.len - 2}, t) < 0)
            return ERR_INVALID;
        rc = 0;
    }
    return rc;
}

static void on_request(struct http_service *s, struct http_exchange *x)
{
    struct query_loop *d = loop_of(s);
    struct item item;
    struct uuid request_id;
    struct lookup *l = NULL;
    struct location_claim claim = {0};
    struct location_token token;
    int64_t user_id;
    if (!bearer_authenticate(d->auth, x, &user_id) || !take_item(x, &item))
        return;
    if (uuid_parse(x->params[2], &request_id) < 0) {
        refuse(x, ANSWER_INVALID_ARGUMENT, NULL, "a request id is a UUID");
        return;
    }
    int rc = take_token(x->query, &token);
    if (rc < 0) {
        refuse(x, ANSWER_INVALID_ARGUMENT, &request_id,
               "t is not a token of ours: take the whole Location, once");
        return;
    }
    if (rc == 0) {
        claim = (struct location_claim){.user_id = user_id, .item = item, .request_id = request_id};
        /* Well-formed, but not ours for this request (a secret that was removed, somebody else's):
         * it proves nothing. */
        if (!location_token_check(&d->query->location_keys, &token, &claim))
            claim.epoch = 0;
    }
    rc = lookup_request(&d->pool, item, user_id, &request_id, claim.epoch, x->received_us, x, &l);
    watch(x, rc, l, &request_id);
}

static void on_order(struct http_service *s, struct http_exchange *x)
{
    struct query_loop *d = loop_of(s);
    struct lookup *l = NULL;
    int64_t user_id, order_id;
    if (!bearer_authenticate(d->auth, x, &user_id))
        return;
    if (parse_i64(x->params[0], 1, INT64_MAX, &order_id) < 0) {
        refuse(x, ANSWER_INVALID_ARGUMENT, NULL, "an order id is a number from 1 to 2^63-1");
        return;
    }
    int rc = lookup_order(&d->pool, order_id, user_id, x->received_us, x, &l);
    watch(x, rc, l, NULL);
}

static void on_item(struct http_service *s, struct http_exchange *x)
{
    struct query_loop *d = loop_of(s);
    struct lookup_answer now;
    struct lookup *l = NULL;
    struct item item;
    if (!take_item(x, &item))
        return;
    int rc = lookup_item(&d->pool, item, x->received_us, x, &l, &now);
    if (rc == LOOKUP_AT_ONCE)
        requests_on_answer(&d->pool, x, &now);
    else
        watch(x, rc, l, NULL);
}

const struct http_route requests_routes[] = {
    {"GET", "/v1/activities/{}/skus/{}/requests/{}", "request", on_request},
    {"GET", "/v1/orders/{}", "order", on_order},
    {"GET", "/v1/activities/{}/skus/{}", "item", on_item},
};
const int requests_n_routes = sizeof(requests_routes) / sizeof(requests_routes[0]);

void requests_on_answer(struct lookup_pool *p, void *viewer, const struct lookup_answer *a)
{
    struct http_exchange *x = viewer;
    char mem[RENDER_MAX];
    struct strbuf b;
    struct str caching = NO_STORE;
    (void)p;
    if (a->answer != ANSWER_OK) {
        refuse(x, a->answer, a->kind == LOOKUP_OF_REQUEST ? &a->request_id : NULL, NULL);
        return;
    }
    strbuf_init_fixed(&b, mem, sizeof mem);
    switch (a->kind) {
    case LOOKUP_OF_REQUEST:
        render_request(&b, a);
        if (a->ask_again)
            caching = NO_STORE_AGAIN;
        break;
    case LOOKUP_OF_ORDER:
        render_order(&b, &a->order);
        break;
    case LOOKUP_OF_ITEM:
        render_item(&b, a);
        caching = PUBLIC_1S;
        break;
    }
    if (b.failed)
        panic("a body is longer than RENDER_MAX");
    http_respond(x, 200, STR("application/json"), caching, strbuf_str(&b));
}

/* seckillctl pay: the demo's payment provider. Signs a payment and sends it until it is taken, as a
 * provider has to: the same payment_id each time, so that it is one payment. */
#include "adapter/http/client.h"
#include "base/clock.h"
#include "daemon/common/payment_auth.h"
#include "daemon/ctl/ctl.h"
#include <stdio.h>

#define TRY_US (INT64_C(2) * 1000 * 1000)
#define PAUSE_US (INT64_C(200) * 1000)

struct pay_args {
    struct item item;
    int64_t user, order, wait_us;
    struct str request, payment, api;
    bool json;
};
static const struct args_option options[] = {
    ARGS_ITEM(struct pay_args, item),
    {"user", ARGS_I64, offsetof(struct pay_args, user), true, 1, INT64_MAX, "the buyer's id"},
    {"request", ARGS_TEXT, offsetof(struct pay_args, request), .required = true,
     .help = "the request's id: its Idempotency-Key"},
    {"order", ARGS_I64, offsetof(struct pay_args, order), true, 1, INT64_MAX, "the order's id"},
    {"payment", ARGS_TEXT, offsetof(struct pay_args, payment),
     .help = "the payment's id (a new one)"},
    {"api", ARGS_TEXT, offsetof(struct pay_args, api),
     .help = "host:port of seckill-api (api.listen)"},
    {"wait", ARGS_DURATION, offsetof(struct pay_args, wait_us), false, 1, INT64_C(3600) * 1000000,
     "how long it is repeated while its outcome is not known (10s)"},
    ARGS_JSON(struct pay_args, json),
};

struct sending {
    struct http_client *client;
    struct payment_auth auth;
    struct str body;
    char body_mem[768], request_mem[1536];
    /* kept of the answer */
    int status;
    char answer[1024];
};

static struct sending sending; /* the answer's body is valid during on_done only */

static void (*on_ctl_done)(struct op *op, int rc);

static void on_answered(struct op *op, int rc)
{
    const struct http_call *call = container_of(op, struct http_call, op);
    sending.status = rc == 0 ? call->status : 0;
    str_copy(sending.answer, sizeof(sending.answer), rc == 0 ? call->body : STR(""));
    on_ctl_done(op, rc);
}

/* Signed anew: the signature's time is part of it. */
static int try_once(struct ctl *c, struct sending *s, const struct pay_args *a)
{
    char signature[PAYMENT_SIGNATURE_MAX];
    int rc = payment_auth_sign(&s->auth, s->body, clock_wall_us() / 1000000, signature);
    if (rc < 0)
        return rc;
    int n = snprintf(s->request_mem, sizeof(s->request_mem),
                     "POST /v1/payments HTTP/1.1\r\nHost: " STR_FMT
                     "\r\nAuthorization: %s\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\n\r\n" STR_FMT,
                     STR_ARG(a->api), signature, s->body.len, STR_ARG(s->body));
    if (n < 0 || (size_t)n >= sizeof(s->request_mem))
        return ERR_INVALID;
    struct http_call call = {.request = {s->request_mem, (size_t)n}};
    ctl_op(c, &call.op, TRY_US);
    on_ctl_done = call.op.on_done;
    call.op.on_done = on_answered;
    http_client_send(s->client, &call);
    return ctl_await(c);
}

static bool is_final(const struct sending *s)
{
    return s->status >= 200 && s->status < 500 && s->status != 408 && s->status != 429;
}

static int send_it(struct ctl *c, struct sending *s, const struct pay_args *a)
{
    int64_t until = clock_mono_us() + a->wait_us;
    int rc;
    for (;;) {
        rc = try_once(c, s, a);
        if ((rc == 0 && is_final(s)) || clock_mono_us() >= until)
            break;
        ctl_sleep(c, PAUSE_US);
    }
    if (rc == 0 && s->status == 202) {
        struct out o;
        out_begin(&o, a->json, false);
        out_record(&o);
        out_str(&o, "payment_id", a->payment);
        out_id(&o, "order_id", a->order);
        out_str(&o, "state", STR("ACCEPTED"));
        return out_end(&o) ? CTL_OK : CTL_UNKNOWN;
    }
    bool refused = rc == 0 && is_final(s);
    ctl_complain("pay: %s: %s",
                 refused ? "refused" : "not known to be taken; pay again with this --payment",
                 rc < 0 ? err_name(rc) : s->answer);
    if (!refused)
        ctl_complain("pay: --payment " STR_FMT, STR_ARG(a->payment));
    return refused ? CTL_FAILED : CTL_UNKNOWN;
}

static int prepare(struct ctl *c, struct sending *s, struct pay_args *a)
{
    char err[512], host[300];
    struct uuid request;
    const struct settings *set = &c->settings;
    if (uuid_parse(a->request, &request) < 0 || !event_payment_id_ok(a->payment)) {
        ctl_complain("pay: --request is a UUID, --payment 1 to 128 letters, digits and .:_-");
        return CTL_USAGE;
    }
    if (payment_auth_load(&s->auth, set->payments.secret_file, set->payments.window_us, err,
                          sizeof(err)) < 0 ||
        s->auth.secrets.n == 0) {
        ctl_complain("pay: %s", s->auth.secrets.n == 0 && !set->payments.secret_file[0]
                                    ? "payments.secret_file is not set"
                                    : err);
        return CTL_FAILED;
    }
    int n = snprintf(s->body_mem, sizeof(s->body_mem),
                     "{\"payment_id\":\"" STR_FMT
                     "\",\"activity_id\":%lld,\"sku_id\":%lld,\"user_id\":%lld,"
                     "\"request_id\":\"%s\",\"order_id\":\"%lld\"}",
                     STR_ARG(a->payment), (long long)a->item.activity_id, (long long)a->item.sku_id,
                     (long long)a->user, uuid_text(&request).z, (long long)a->order);
    s->body = (struct str){s->body_mem, (size_t)n};
    if (!str_copy(host, sizeof(host), a->api) || !ctl_loop(c))
        return CTL_FAILED;
    s->client = http_client_new(c->loop, host);
    if (!s->client)
        ctl_complain("pay: --api is host:port");
    return s->client ? CTL_OK : CTL_USAGE;
}

static int run(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct pay_args a = {.wait_us = INT64_C(10) * 1000 * 1000,
                         .api = str_of(c->settings.api.listen)};
    struct rng rng;
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    rng_init(&rng);
    struct uuid made = uuid_v7(clock_wall_us() / 1000, &rng);
    struct uuid_text text = uuid_text(&made);
    if (!a.payment.len)
        a.payment = str_of(text.z);
    rc = prepare(c, &sending, &a);
    if (rc == CTL_OK)
        rc = send_it(c, &sending, &a);
    if (sending.client)
        http_client_free(sending.client);
    payment_auth_wipe(&sending.auth);
    return rc;
}

const struct ctl_command pay_command = {
    .group = "pay",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .words = "",
    .help = "pays an order, as the payment provider would: for demos and tests\n"
            "Signs with the first secret of payments.secret_file. 3: the outcome is not known.\n",
    .run = run,
};

/* dead-letters list|show|replay (rules 24, 25). */
#include "adapter/pg/pg_admin.h"
#include "base/err.h"
#include "base/parse.h"
#include "core/event.h"
#include "daemon/ctl/ctl_queue.h"
#include <stdio.h>
#include <stdlib.h>

#define LIST_MAX 1000
#define BODY_MAX (1u << 20)

static const char *state_of(const struct pg_dead_letter *d)
{
    return d->replayed_ms ? "replayed" : d->voided_ms ? "voided" : "waiting";
}

static void put(struct out *o, const struct pg_dead_letter *d)
{
    char item[64];
    snprintf(item, sizeof(item), "%lld:%lld", (long long)d->item.activity_id,
             (long long)d->item.sku_id);
    out_i64(o, "id", d->id);
    out_time(o, "created_at", d->created_ms);
    out_str(o, "state", str_of(state_of(d)));
    out_str(o, "item", d->item.activity_id ? str_of(item) : STR(""));
    out_uuid(o, "message_id", d->decoded ? &d->message_id : NULL);
    out_id(o, "user_id", d->user_id);
    out_i64(o, "deliveries", d->deliveries);
    out_str(o, "reason", str_of(d->reason));
}

/* --- list --- */

struct list_args {
    int64_t before, limit;
    bool json;
};
static const struct args_option list_options[] = {
    {"before", ARGS_I64, offsetof(struct list_args, before), false, 1, INT64_MAX,
     "only ids below this one: the next page"},
    {"limit", ARGS_I64, offsetof(struct list_args, limit), false, 1, LIST_MAX, "at most (50)"},
    ARGS_JSON(struct list_args, json),
};

static int run_list(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct list_args a = {.limit = 50};
    char err[512] = "";
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL), n = (int)a.limit;
    if (rc >= 0)
        return rc;
    n = (int)a.limit;
    struct pg_dead_letter *rows = malloc(sizeof(*rows) * (size_t)n);
    if (!rows ||
        pg_dead_letters_list(c->settings.pg.conninfo, a.before, rows, &n, err, sizeof(err)) < 0) {
        ctl_complain("dead-letters list: %s", rows ? err : "no memory");
        free(rows);
        return CTL_FAILED;
    }
    struct out o;
    out_begin(&o, a.json, true);
    for (int i = 0; i < n; i++) {
        out_record(&o);
        put(&o, &rows[i]);
    }
    free(rows);
    return out_end(&o) ? CTL_OK : CTL_UNKNOWN;
}

const struct ctl_command dead_letters_list_command = {
    .group = "dead-letters",
    .verb = "list",
    .options = list_options,
    .n_options = sizeof(list_options) / sizeof(list_options[0]),
    .words = "",
    .help = "messages that were put away, newest first\n",
    .run = run_list,
};

/* --- show --- */

struct id_args {
    bool json;
};
static const struct args_option id_options[] = {ARGS_JSON(struct id_args, json)};

/* -1 with the id; else the exit status. */
static int read_id(const struct ctl_command *self, int argc, char **argv, struct id_args *a,
                   int64_t *id)
{
    struct str word;
    int n = 1, rc = ctl_args(self, a, argc, argv, &word, &n);
    if (rc >= 0)
        return rc;
    if (n == 1 && parse_i64(word, 1, INT64_MAX, id) == 0)
        return -1;
    ctl_complain("dead-letters %s: wants the ID of a dead letter (dead-letters list)", self->verb);
    return CTL_USAGE;
}

/* 0, or complained: the exit status. */
static int load(const struct ctl *c, const struct ctl_command *self, int64_t id,
                struct pg_dead_letter *d, struct strbuf *body)
{
    char err[512] = "";
    int rc = pg_dead_letters_show(c->settings.pg.conninfo, id, d, body, err, sizeof(err));
    if (rc == 1)
        ctl_complain("dead-letters %s: there is no dead letter %lld", self->verb, (long long)id);
    else if (rc < 0)
        ctl_complain("dead-letters %s: %s", self->verb, err);
    return rc == 0 ? CTL_OK : CTL_FAILED;
}

static void put_more(struct out *o, const struct pg_dead_letter *d, struct str body)
{
    out_uuid(o, "request_id", d->decoded ? &d->request_id : NULL);
    out_uuid(o, "reservation_id", d->decoded ? &d->reservation_id : NULL);
    out_id(o, "order_id", d->order_id);
    out_time(o, "replayed_at", d->replayed_ms ? d->replayed_ms : -1);
    out_time(o, "voided_at", d->voided_ms ? d->voided_ms : -1);
    out_str(o, "broker_id", str_of(d->broker_id));
    out_i64(o, "body_bytes", (int64_t)d->body_len);
    out_str(o, "body", body);
}

static int run_show(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct id_args a = {0};
    struct pg_dead_letter d;
    int64_t id = 0;
    int rc = read_id(self, argc, argv, &a, &id);
    if (rc >= 0)
        return rc;
    struct strbuf body;
    strbuf_init(&body, BODY_MAX);
    rc = load(c, self, id, &d, &body);
    if (rc == CTL_OK) {
        struct out o;
        out_begin(&o, a.json, false);
        out_record(&o);
        put(&o, &d);
        put_more(&o, &d, strbuf_str(&body));
        rc = out_end(&o) ? CTL_OK : CTL_UNKNOWN;
    }
    strbuf_deinit(&body);
    return rc;
}

const struct ctl_command dead_letters_show_command = {
    .group = "dead-letters",
    .verb = "show",
    .options = id_options,
    .n_options = 1,
    .words = "ID",
    .help = "one of them, with its body\n",
    .run = run_show,
};

/* --- replay --- */

static int publish(struct ctl *c, struct event *e)
{
    struct queue *queue = ctl_queue(c, EVENT_QUEUE_PUBLISH);
    struct stock *stock = ctl_stock(c);
    if (!queue || !stock)
        return ERR_UNAVAIL;
    struct queue_publish publish = {.event = e};
    ctl_op(c, &publish.op, CTL_CALL_US);
    queue->ops->publish(queue, &publish);
    int rc = ctl_await(c);
    if (rc < 0)
        return rc;
    /* So that recovery looks at this one (rule 28). Without it recovery publishes once more. */
    struct stock_republished note = {.item = e->item,
                                     .user_id = e->user_id,
                                     .request_id = e->request_id,
                                     .reservation_id = e->reservation_id};
    memcpy(note.queue_id, publish.queue_id, sizeof(note.queue_id));
    ctl_op(c, &note.op, CTL_CALL_US);
    stock->ops->republished(stock, &note);
    ctl_await(c);
    return 0;
}

static int replay(struct ctl *c, int64_t id, struct event *e, bool json)
{
    char err[512] = "";
    struct item item;
    struct strbuf body; /* the same bytes again */
    strbuf_init(&body, BODY_MAX);
    int rc = pg_dead_letters_replay(c->settings.pg.conninfo, id, &item, &body, err, sizeof(err));
    strbuf_deinit(&body);
    if (rc == 1)
        ctl_complain("dead-letters replay: refused: %lld is not in quarantine any more",
                     (long long)id);
    else if (rc < 0)
        ctl_complain("dead-letters replay: %s", err);
    if (rc != 0)
        return CTL_FAILED;
    e->retry_count++;
    rc = publish(c, e);
    if (rc < 0) {
        ctl_complain("dead-letters replay: taken out of quarantine, but publishing is %s (%s): "
                     "recovery will publish it",
                     err_is_unknown(rc) ? "unknown" : "refused", err_name(rc));
        return CTL_FAILED;
    }
    struct out o;
    out_begin(&o, json, false);
    out_record(&o);
    out_i64(&o, "id", id);
    out_str(&o, "state", STR("replayed"));
    out_uuid(&o, "message_id", &e->message_id);
    return out_end(&o) ? CTL_OK : CTL_UNKNOWN;
}

static int run_replay(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct id_args a = {0};
    struct pg_dead_letter d;
    struct event e;
    const char *why = "";
    int64_t id = 0;
    int rc = read_id(self, argc, argv, &a, &id);
    if (rc >= 0)
        return rc;
    struct strbuf body;
    strbuf_init(&body, BODY_MAX);
    rc = load(c, self, id, &d, &body);
    if (rc == CTL_OK && !d.decoded) {
        ctl_complain("dead-letters replay: refused: %lld is undecodable, so there is nothing to "
                     "publish (rule 24)",
                     (long long)id);
        rc = CTL_FAILED;
    } else if (rc == CTL_OK && (d.replayed_ms || d.voided_ms)) {
        ctl_complain("dead-letters replay: refused: %lld was %s before", (long long)id,
                     state_of(&d));
        rc = CTL_FAILED;
    } else if (rc == CTL_OK && event_decode(strbuf_str(&body), &e, &why) < 0) {
        ctl_complain("dead-letters replay: refused: this build cannot read %lld: %s", (long long)id,
                     why);
        rc = CTL_FAILED;
    }
    if (rc == CTL_OK)
        rc = replay(c, id, &e, a.json); /* e borrows from body */
    strbuf_deinit(&body);
    return rc;
}

const struct ctl_command dead_letters_replay_command = {
    .group = "dead-letters",
    .verb = "replay",
    .options = id_options,
    .n_options = 1,
    .words = "ID",
    .help =
        "gives a message in quarantine a new life (rule 25)\n"
        "Its failures are forgotten and it is published again. Refused for what is undecodable, "
        "replayed or voided.\n",
    .run = run_replay,
};

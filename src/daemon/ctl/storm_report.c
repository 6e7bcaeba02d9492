#include "daemon/ctl/storm_report.h"

#include "base/json.h"
#include "daemon/ctl/storm_answer.h"

static int64_t accepted(const struct storm_outcomes *o)
{
    return o->answers[ANSWER_ACCEPTED] + o->answers[ANSWER_OK];
}

static int64_t others(const struct storm_outcomes *o, enum storm_says says)
{
    int64_t n = 0;
    for (int a = 0; a < ANSWERS; a++) {
        if (a != ANSWER_SOLD_OUT && storm_answer_says((enum answer)a) == says)
            n += o->answers[a];
    }
    return n;
}

void storm_progress(struct storm_progress *p, const struct storm_totals *t, int64_t now_us)
{
    if (!p->to)
        return;
    const struct storm_outcomes *o = &t->ends;
    int64_t us = now_us - p->last_us, rate = us > 0 ? (t->sent - p->last_sent) * 1000000 / us : 0;
    fprintf(p->to, "%ssent %lld  accepted %lld  sold out %lld  refused %lld  errors %lld  %lld/s%s",
            p->live ? "\r" : "", (long long)t->sent, (long long)accepted(o),
            (long long)o->answers[ANSWER_SOLD_OUT], (long long)others(o, STORM_REFUSED),
            (long long)(others(o, STORM_UNSAID) + o->unknown + o->unsent + o->malformed),
            (long long)rate, p->live ? "\033[K" : "\n");
    fflush(p->to);
    p->open = p->live;
    p->last_us = now_us;
    p->last_sent = t->sent;
}

void storm_progress_end(struct storm_progress *p)
{
    if (p->to && p->open)
        fputc('\n', p->to);
    p->open = false;
}

static const struct {
    const char *name;
    double q;
} quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}};
#define QUANTILES (sizeof(quantiles) / sizeof(quantiles[0]))

static int64_t quantile_us(const struct latency *l, size_t i)
{
    return i + 1 == QUANTILES ? (l->n ? l->max_us : -1) : latency_quantile_us(l, quantiles[i].q);
}

/* Time from the first send; -1: it did not happen. */
static int64_t since_us(const struct storm_totals *t, int64_t at_us)
{
    if (!at_us || !t->first_send_us)
        return -1;
    return at_us > t->first_send_us ? at_us - t->first_send_us : 0;
}

static double rate_of(const struct storm_totals *t)
{
    int64_t us = since_us(t, t->last_answer_us);
    return us > 0 ? (double)t->answered * 1e6 / (double)us : 0;
}

static const struct {
    const char *name, *label;
    size_t at;
} moments[] = {
    {"first_accept_us", "first accepted", offsetof(struct storm_totals, first_accept_us)},
    {"last_accept_us", "last accepted", offsetof(struct storm_totals, last_accept_us)},
    {"first_sold_out_us", "first sold out", offsetof(struct storm_totals, first_sold_out_us)},
    {"last_answer_us", "last answer", offsetof(struct storm_totals, last_answer_us)},
};
#define MOMENTS (sizeof(moments) / sizeof(moments[0]))

static int64_t moment_us(const struct storm_totals *t, size_t i)
{
    int64_t at_us;
    memcpy(&at_us, (const char *)t + moments[i].at, sizeof(at_us));
    return since_us(t, at_us);
}

/* --- JSON --- */

static void json_outcomes(struct strbuf *b, const char *name, const struct storm_outcomes *o)
{
    strbuf_printf(b, ",\"%s\":{", name);
    for (int a = 0; a < ANSWERS; a++) {
        if (o->answers[a])
            strbuf_printf(b, "\"%s\":%lld,", answer_info((enum answer)a)->code,
                          (long long)o->answers[a]);
    }
    strbuf_printf(b, "\"unknown\":%lld,\"unsent\":%lld,\"malformed\":%lld}", (long long)o->unknown,
                  (long long)o->unsent, (long long)o->malformed);
}

static void json_latency(struct strbuf *b, const char *name, const struct latency *l)
{
    strbuf_printf(b, ",\"%s\":{\"count\":%llu", name, (unsigned long long)l->n);
    for (size_t i = 0; l->n && i < QUANTILES; i++)
        strbuf_printf(b, ",\"%s_us\":%lld", quantiles[i].name, (long long)quantile_us(l, i));
    strbuf_add_char(b, '}');
}

static void json_summary(const struct storm_config *c, const struct storm_totals *t,
                         struct strbuf *b)
{
    strbuf_printf(b,
                  "{\"buyers\":%lld,\"requests\":%lld,\"seed\":\"%llu\",\"first_user\":%lld,"
                  "\"sent\":%lld,\"answered\":%lld,\"finished\":%lld,\"retries\":%lld,"
                  "\"rate\":%.0f",
                  (long long)c->buyers, (long long)(c->buyers * c->clicks),
                  (unsigned long long)c->seed, (long long)c->first_user, (long long)t->sent,
                  (long long)t->answered, (long long)t->done, (long long)t->retries, rate_of(t));
    json_outcomes(b, "outcomes", &t->ends);
    json_outcomes(b, "tries", &t->tries);
    json_latency(b, "latency", &t->all);
    json_latency(b, "latency_accepted", &t->accepted);
    for (size_t i = 0; i < MOMENTS; i++) {
        int64_t us = moment_us(t, i);
        strbuf_printf(b, ",\"%s\":", moments[i].name);
        if (us < 0)
            strbuf_add_str(b, STR("null"));
        else
            strbuf_add_i64(b, us);
    }
    const struct follow_totals *f = &t->states;
    if (c->query)
        strbuf_printf(b,
                      ",\"states\":{\"followed\":%lld,\"passed_over\":%lld,\"final\":%lld,"
                      "\"waiting\":%lld,\"missing\":%lld,\"malformed\":%lld,\"asked\":%lld}",
                      (long long)f->followed, (long long)f->passed_over, (long long)f->final,
                      (long long)f->waiting, (long long)f->missing, (long long)f->malformed,
                      (long long)f->asked);
    if (t->malformed_why) {
        strbuf_printf(b, ",\"malformed_status\":%d,\"malformed_why\":", t->malformed_status);
        json_add_string(b, str_of(t->malformed_why));
    }
    strbuf_add_str(b, STR("}\n"));
}

/* --- for people --- */

static void text_ms(struct strbuf *b, int64_t us)
{
    if (us < 0)
        strbuf_printf(b, "  %9s", "-");
    else if (us < 10000)
        strbuf_printf(b, "  %6.2f ms", (double)us / 1e3);
    else if (us < 10000000)
        strbuf_printf(b, "  %6.0f ms", (double)us / 1e3);
    else
        strbuf_printf(b, "  %6.1f s ", (double)us / 1e6);
}

static void text_row(struct strbuf *b, const char *what, int status, int64_t ends, int64_t tries)
{
    char name[64];
    if (!ends && !tries)
        return;
    if (status)
        snprintf(name, sizeof(name), "%d %s", status, what);
    else
        snprintf(name, sizeof(name), "%s", what);
    strbuf_printf(b, "  %-32s %10lld %10lld\n", name, (long long)ends, (long long)tries);
}

static void text_summary(const struct storm_config *c, const struct storm_totals *t,
                         struct strbuf *b)
{
    int64_t requests = c->buyers * c->clicks, us = since_us(t, t->last_answer_us);
    strbuf_printf(b,
                  "%lld requests of %lld buyers in %.2f s: %.0f answers/s (seed %llu, users "
                  "%lld…%lld)\n\n  %-32s %10s %10s\n",
                  (long long)requests, (long long)c->buyers, us > 0 ? (double)us / 1e6 : 0.0,
                  rate_of(t), (unsigned long long)c->seed, (long long)c->first_user,
                  (long long)(c->first_user + c->buyers - 1), "outcome", "requests", "tries");
    for (int a = 0; a < ANSWERS; a++) {
        const struct answer_info *info = answer_info((enum answer)a);
        text_row(b, info->code, info->status, t->ends.answers[a], t->tries.answers[a]);
    }
    text_row(b, "no answer (unknown)", 0, t->ends.unknown, t->tries.unknown);
    text_row(b, "no connection (not sent)", 0, t->ends.unsent, t->tries.unsent);
    text_row(b, "MALFORMED", 0, t->ends.malformed, t->tries.malformed);
    text_row(b, "not finished", 0, requests - t->done, 0);
    const struct follow_totals *f = &t->states;
    if (c->query)
        strbuf_printf(
            b,
            "\n  states of %lld accepted: %lld final, %lld not yet, %lld not found (404), "
            "after %lld questions\n",
            (long long)f->followed, (long long)f->final, (long long)f->waiting,
            (long long)f->missing, (long long)f->asked);
    if (f->passed_over)
        strbuf_printf(b, "  and %lld more were not asked for\n", (long long)f->passed_over);
    strbuf_printf(b, "\n  %-20s", "latency");
    for (size_t i = 0; i < QUANTILES; i++)
        strbuf_printf(b, "  %9s", quantiles[i].name);
    strbuf_printf(b, "\n  %-20s", "all answers");
    for (size_t i = 0; i < QUANTILES; i++)
        text_ms(b, quantile_us(&t->all, i));
    strbuf_printf(b, "\n  %-20s", "accepted");
    for (size_t i = 0; i < QUANTILES; i++)
        text_ms(b, quantile_us(&t->accepted, i));
    strbuf_add_str(b, STR("\n\n  from the first send to\n"));
    for (size_t i = 0; i < MOMENTS; i++) {
        strbuf_printf(b, "  %-20s", moments[i].label);
        text_ms(b, moment_us(t, i));
        strbuf_add_char(b, '\n');
    }
}

void storm_summary(const struct storm_config *c, const struct storm_totals *t, bool json,
                   struct strbuf *out)
{
    if (json)
        json_summary(c, t, out);
    else
        text_summary(c, t, out);
}

const char *storm_verdict(const struct storm_totals *t)
{
    if (t->sent == 0 || t->tries.unsent == t->sent)
        return "nothing could be sent";
    if (t->answered == 0)
        return "nobody got an answer";
    if (t->gave_up)
        return "nobody answers any more: it gave up";
    if (t->states.missing)
        return "accepted requests were not found (404)";
    if (t->tries.malformed || t->states.malformed)
        return "there were answers that break the contract";
    return NULL;
}

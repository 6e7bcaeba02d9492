#include "app/reconcile_report.h"

#include "app/worker.h"
#include "base/json.h"

static void add_uuid(struct strbuf *b, const char *name, const struct uuid *u)
{
    char text[UUID_TEXT];
    uuid_format(u, text);
    strbuf_printf(b, ",\"%s\":\"%.*s\"", name, UUID_TEXT, text);
}

static void add_finding(struct strbuf *b, const struct finding *f)
{
    strbuf_printf(b, "{\"kind\":\"%s\",\"units\":%lld", finding_kind_name(f->kind),
                  (long long)f->units);
    if (f->r.user_id)
        strbuf_printf(b, ",\"user_id\":%lld,\"order_id\":\"%lld\"", (long long)f->r.user_id,
                      (long long)f->r.order_id);
    if (!uuid_is_nil(&f->r.reservation_id))
        add_uuid(b, "reservation_id", &f->r.reservation_id);
    if (!uuid_is_nil(&f->r.request_id))
        add_uuid(b, "request_id", &f->r.request_id);
    if (f->broken)
        strbuf_printf(b, ",\"key\":\"%s\"", f->broken);
    if (f->mended)
        strbuf_printf(b, ",\"mended\":\"%s\"", f->mended);
    strbuf_add_char(b, '}');
}

void reconcile_report_detail(const struct worker *w, struct item item, struct strbuf *out)
{
    const struct reconcile *r = &w->reconcile;
    int told = 0, more = r->dropped;
    strbuf_add_str(out, STR("{\"findings\":["));
    for (int i = 0; i < r->findings.n; i++) {
        const struct finding *f = &r->findings.rows[i];
        if (!item_eq(f->item, item) || !finding_sure(f))
            continue;
        if (told == RECONCILE_REPORT_FINDINGS) {
            more++;
            continue;
        }
        if (told++ > 0)
            strbuf_add_char(out, ',');
        add_finding(out, f);
    }
    strbuf_printf(out,
                  "],\"more\":%d,\"unsure\":%d,\"timeline\":%lld,\"total\":%lld,\"free\":%lld,"
                  "\"buyers\":%lld,\"active\":%lld,\"in_flight\":%lld,\"returning\":%lld,"
                  "\"republished\":%lld}",
                  more, findings_count(w, item, false), (long long)r->books.timeline,
                  (long long)r->info.total, (long long)r->info.free, (long long)r->info.buyers,
                  (long long)r->counts.active, (long long)r->counts.in_flight,
                  (long long)r->counts.returning, (long long)r->counts.republished);
}

static void log_finding(struct finding *f)
{
    f->told = true;
    if (uuid_is_nil(&f->r.reservation_id))
        log_error("stock discrepancy", LOG_Z("kind", finding_kind_name(f->kind)),
                  LOG_I("activity_id", f->item.activity_id), LOG_I("sku_id", f->item.sku_id),
                  LOG_I("units", f->units), LOG_Z("key", f->broken ? f->broken : ""),
                  LOG_Z("outcome", f->mended ? f->mended : "REPORTED"));
    else
        log_error("stock discrepancy", LOG_Z("kind", finding_kind_name(f->kind)),
                  LOG_I("activity_id", f->item.activity_id), LOG_I("sku_id", f->item.sku_id),
                  LOG_UUID("reservation_id", &f->r.reservation_id),
                  LOG_UUID("request_id", &f->r.request_id), LOG_I("user_id", f->r.user_id),
                  LOG_I("order_id", f->r.order_id),
                  LOG_Z("outcome", f->mended ? f->mended : "REPORTED"));
}

void reconcile_report_log(struct worker *w, struct item item)
{
    for (int i = 0; i < w->reconcile.findings.n; i++) {
        struct finding *f = &w->reconcile.findings.rows[i];
        if (item_eq(f->item, item) && finding_sure(f) && !f->told)
            log_finding(f);
    }
}

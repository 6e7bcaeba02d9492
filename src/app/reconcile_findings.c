#include "app/reconcile_findings.h"

#include "app/worker.h"

const char *finding_kind_name(enum finding_kind k)
{
    static const char *const names[FINDING_KINDS] = {
        [FINDING_FREE_HIGH] = "FREE_HIGH", [FINDING_FREE_LOW] = "FREE_LOW",
        [FINDING_TOTAL] = "TOTAL",         [FINDING_BUYER] = "BUYER",
        [FINDING_RECORD] = "RECORD",       [FINDING_SETTLE] = "SETTLE",
        [FINDING_LOST] = "LOST",           [FINDING_RELEASED] = "RELEASED",
        [FINDING_LEDGER] = "LEDGER",       [FINDING_BROKEN] = "BROKEN",
    };
    return names[k];
}

static struct finding *find(struct findings *all, struct item item, enum finding_kind kind,
                            const struct uuid *reservation_id)
{
    for (int i = 0; i < all->n; i++) {
        struct finding *f = &all->rows[i];
        if (f->kind == kind && item_eq(f->item, item) &&
            uuid_eq(&f->r.reservation_id, reservation_id))
            return f;
    }
    return NULL;
}

struct finding *findings_note(struct worker *w, struct item item, enum finding_kind kind,
                              const struct reservation *r, int64_t units)
{
    struct findings *all = &w->reconcile.findings;
    struct reservation none = {0};
    r = r ? r : &none;
    struct finding *f = find(all, item, kind, &r->reservation_id);
    if (!f && all->n == FINDINGS_MAX) {
        all->dropped++;
        metric_add(w->metrics.findings_dropped, 1);
        return NULL;
    }
    if (!f) {
        f = &all->rows[all->n++];
        *f = (struct finding){.item = item, .kind = kind, .units = units};
    }
    if (f->units != units) { /* another sample does not agree */
        f->units = units;
        f->rounds = 0;
        f->told = false;
        f->mended = NULL;
    }
    f->r = *r;
    f->seen = true;
    return f;
}

void findings_round_over(struct worker *w, struct item item, bool complete)
{
    struct findings *all = &w->reconcile.findings;
    int kept = 0;
    for (int i = 0; i < all->n; i++) {
        struct finding *f = &all->rows[i];
        bool here = item_eq(f->item, item);
        if (here && complete && !f->seen)
            continue;
        if (here && complete)
            f->rounds++;
        if (here)
            f->seen = false;
        if (kept != i)
            all->rows[kept] = *f;
        kept++;
    }
    all->n = kept;
    all->dropped = 0;
}

int findings_count(const struct worker *w, struct item item, bool sure)
{
    const struct findings *all = &w->reconcile.findings;
    int n = 0;
    for (int i = 0; i < all->n; i++)
        n += item_eq(all->rows[i].item, item) && finding_sure(&all->rows[i]) == sure;
    return n;
}

bool findings_has(const struct worker *w, struct item item, enum finding_kind kind)
{
    const struct findings *all = &w->reconcile.findings;
    for (int i = 0; i < all->n; i++) {
        const struct finding *f = &all->rows[i];
        if (f->kind == kind && item_eq(f->item, item) && finding_sure(f))
            return true;
    }
    return false;
}

void findings_show(struct worker *w)
{
    const struct findings *all = &w->reconcile.findings;
    int64_t sums[FINDING_KINDS] = {0};
    for (int i = 0; i < all->n; i++) {
        if (finding_sure(&all->rows[i]))
            sums[all->rows[i].kind] += all->rows[i].units;
    }
    for (int k = 0; k < FINDING_KINDS; k++)
        metric_set(w->metrics.discrepancy[k], sums[k]);
}

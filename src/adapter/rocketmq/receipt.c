#include "adapter/rocketmq/receipt.h"

#include <string.h>

void rmq_receipt_read(const Rmq__SendMessageResponse *r, const char *message_id, int sent,
                      struct rmq_receipt *out)
{
    *out = (struct rmq_receipt){.entries = r->n_entries, .sent = sent};
    for (size_t i = 0; i < r->n_entries; i++) {
        const Rmq__SendResultEntry *e = r->entries[i];
        int code = e->status ? e->status->code : 0;
        out->code = i == 0 || code == out->code ? code : -1;
        out->same_id |= i == 0 && e->message_id && strcmp(e->message_id, message_id) == 0;
    }
}

/* A proxy answers for several with one entry, since the broker stored all or none; one for each
 * would say the same. */
static bool entries_fit(const struct rmq_receipt *r)
{
    return r->entries == 1 || r->entries == (size_t)r->sent;
}

int rmq_receipt_judge(const struct rmq_answer *a, const struct rmq_receipt *r, bool *odd)
{
    *odd = false;
    if (a->transport || !a->code)
        return a->rc;
    bool fits = (entries_fit(r) && r->code == a->code) || (r->entries == 0 && a->class != RMQ_OK);
    if (a->class == RMQ_OK && r->sent == 1)
        fits = fits && r->same_id;
    if (fits)
        return a->class == RMQ_OK ? 0 : a->rc ? a->rc : ERR_UNCERTAIN;
    *odd = true;
    return ERR_UNCERTAIN;
}

enum rmq_again rmq_again_after(const struct rmq_answer *a, int rc)
{
    if (rc == 0 || rc == ERR_CANCELED)
        return RMQ_AGAIN_NO;
    switch (a->class) {
    case RMQ_THROTTLED:
        return RMQ_AGAIN_LATER;
    case RMQ_UNKNOWN:
        return RMQ_AGAIN_ANYWHERE;
    case RMQ_MISSING_TOPIC:
    case RMQ_NO_QUEUE:
        return RMQ_AGAIN_ELSEWHERE;
    case RMQ_OK: /* with a receipt that does not fit: it may be stored, and more makes more of them
                  */
    default:
        return RMQ_AGAIN_NO;
    }
}

struct rmq_channel *rmq_choose(struct rmq_channel *const *channels, int n, unsigned *turn,
                               const struct rmq_channel *failed, int max_sends)
{
    for (int pass = 0; pass < 4; pass++) {
        bool isolated = pass >= 2, any = false;
        const struct rmq_channel *avoid = pass % 2 == 0 ? failed : NULL;
        unsigned from = *turn;
        for (int i = 0; i < n; i++) {
            struct rmq_channel *ch = channels[(from + (unsigned)i) % (unsigned)n];
            if (ch == avoid || (ch->isolated && !isolated))
                continue;
            any = true;
            if (ch->sends < max_sends) {
                *turn = (from + (unsigned)i + 1) % (unsigned)n;
                return ch;
            }
        }
        if (any)
            return NULL; /* full: it waits for these, rather than going where it fails */
    }
    return NULL;
}

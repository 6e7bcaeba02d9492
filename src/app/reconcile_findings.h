/* What rounds of reconciliation found, remembered from one to the next: a finding is told and acted
 * on when two rounds in a row agree (rule 40), since between the two stores something is always on
 * its way. Bounded: what does not fit is counted and found again later. Loop thread. */
#pragma once

#include "port/orders.h"
#include "port/stock.h"

#define FINDINGS_MAX 512
#define FINDINGS_SURE 2 /* rounds */

struct worker;

enum finding_kind {
    FINDING_FREE_HIGH, /* more is free and held than the total: units were invented */
    FINDING_FREE_LOW,  /* less: units were lost */
    FINDING_TOTAL,     /* the stores have different totals */
    FINDING_BUYER,     /* buyers or pending do not agree with a record */
    FINDING_RECORD,    /* a record is gone, or cannot be read, or is another's */
    FINDING_SETTLE,    /* ended and settled in PostgreSQL, held in Redis */
    FINDING_LOST,      /* an order in Redis, and PostgreSQL has none */
    FINDING_RELEASED,  /* an active order, and Redis gave its unit back */
    FINDING_LEDGER,    /* the ledger does not say that the order took its unit */
    FINDING_BROKEN,    /* a key of the item is not what it must be: the item is paused */
    FINDING_KINDS
};

struct finding {
    struct item item;
    enum finding_kind kind;
    struct reservation r; /* whose; nil ids: of none, then units says how many */
    struct orders_inbox inbox;
    int64_t units;
    const char *broken; /* BROKEN: the key; static */
    int rounds;         /* in a row */
    bool seen, told;
    const char *mended; /* what was done about it; static, NULL: nothing */
};
struct findings {
    struct finding rows[FINDINGS_MAX];
    int n;
    int dropped; /* in this round: there was no room */
};

const char *finding_kind_name(enum finding_kind k); /* "FREE_HIGH" … */
static inline bool finding_sure(const struct finding *f)
{
    return f->rounds >= FINDINGS_SURE;
}
/* In this round. r NULL: of no reservation. The finding, until the next call; NULL: no room. */
struct finding *findings_note(struct worker *w, struct item item, enum finding_kind kind,
                              const struct reservation *r, int64_t units);
/* A round over the item was complete: what it did not see is over, the rest is surer. Or it was
 * not: then it says nothing. */
void findings_round_over(struct worker *w, struct item item, bool complete);
/* How many of the item's are sure (or not yet). */
int findings_count(const struct worker *w, struct item item, bool sure);
/* Whether one of this kind is sure. */
bool findings_has(const struct worker *w, struct item item, enum finding_kind kind);
/* Shows what is sure as seckill_inventory_discrepancy. */
void findings_show(struct worker *w);

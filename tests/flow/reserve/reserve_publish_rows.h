/* Rows of "every wait × every fault" on a queue that is not the store's. */
#pragma once

#include "reserve_faults.h"

struct publish_row {
    const char *name;
    struct reserve_fault publish, after; /* after: of the mark, strict: of the release */
    const char *trace;
    int64_t told_ms;
    int held, status, messages; /* when everything has come to rest; status -1: no record */
};

#define NO_RECORD (-1)

/* Runs one row in that mode and compares all of it. `after` strikes the operation `after_op`. */
static inline void publish_row_run(const struct publish_row *row, bool strict, int after_op)
{
    struct fixture f;
    fixture_init_queue(&f, 1, 4, strict);
    if (row->publish.kind)
        mem_faults_add(mem_queue_faults(f.queue), MEM_QUEUE_PUBLISH, 1, row->publish.kind,
                       row->publish.delay);
    if (row->after.kind)
        mem_faults_add(mem_stock_faults(f.stock), after_op, 1, row->after.kind, row->after.delay);
    fixture_buy(&f, 5, 1);
    fixture_run_ms(&f, 1000); /* what was held back arrives */
    const struct reservation *r = fixture_record(&f, 5, 1);
    int status = r ? (int)r->status : NO_RECORD;
    int messages = mem_broker_unacked(f.broker, f.item);
    if (strcmp(f.trace, row->trace) != 0 || f.answered_us != row->told_ms * MS ||
        fixture_held(&f) != row->held || status != row->status || messages != row->messages)
        fail_msg("%s: %s, told at %d ms, held %d, status %d, %d messages; expected %s, %d, %d, %d, "
                 "%d",
                 row->name, f.trace, (int)(f.answered_us / MS), (int)fixture_held(&f), status,
                 messages, row->trace, (int)row->told_ms, row->held, row->status, row->messages);
    /* Accepted only with a unit held; and a message only for a unit that is held. */
    assert_true(f.last.answer != ANSWER_ACCEPTED || fixture_held(&f) == 1);
    assert_true(messages == 0 || fixture_held(&f) == 1);
    assert_int_equal(reserve_pool_busy(&f.pool), 0);
    /* The same key again tells what became of it: the earlier one, or a unit of its own. */
    mem_faults_clear(mem_stock_faults(f.stock), -1);
    fixture_buy(&f, 5, 1);
    assert_int_equal(f.last.answer, ANSWER_ACCEPTED);
    assert_int_equal(f.last.replayed, row->held);
    assert_int_equal(mem_broker_unacked(f.broker, f.item), row->held ? messages : 1);
    fixture_deinit(&f);
}

"""The guards, and how each is taken out. A mutation is an old text that stands exactly once in its file (of an SQL function: in
the definition that counts, whichever migration holds it) and what stands there instead. `because`: what the failed assertion
or its message says, so that the test failed for this guard and not for another reason. See run.py."""
from dataclasses import dataclass


@dataclass
class Mutant:
    guard: str
    name: str
    without: str  # for the page: what happens without it
    where: str    # a file, or "function NAME": its newest definition in sql/
    old: str
    new: str
    test: str
    because: str


GUARDS = {
    "unique": "each UNIQUE of `orders`",
    "inbox": "the inbox row is the tombstone",
    "ack_after_commit": "ack after the commit",
    "void": "void inserts the inbox row",
    "epoch": "settle acts at the item's epoch only",
    "conditional_update": "the conditional inventory update",
    "buyers_if_mine": "`buyers` goes only if it is mine",
    "deadline": "the deadline in Redis time",
    "lease_margin": "a lease minus its margin",
    "drain_order": "the order of a drain",
    "retry_cap": "every retry has a cap",
    "slots_first": "slots are taken before receiving",
    "moves": "the moves of a reservation",
    "one_unit": "one unit a request and buyer",
    "surplus": "who is rejected when the stock runs out",
    "unknown": "unknown is not refused",
    "recovery": "recovery harms no healthy backlog",
    "hint": "the sold-out hint is never older than the news",
    "commands": "paying, cancelling and expiring exclude each other",
    "quarantine": "the quarantined are held",
    "rebuild": "a rebuild's steps are fenced, and what was lost is noticed",
    "reconcile": "a repair only goes the safe way",
}

PLACE, RACES, MESSAGES, LIFE = (f"tests/sql/test_{n}.py" for n in ("place", "races", "messages", "lifecycle"))
RESERVE, SETTLE, MARKS, REBUILD, RECONCILE = (f"tests/lua/test_{n}.py" for n in ("reserve", "settle", "marks", "rebuild", "reconcile"))

MUTANTS = [
    # --- unique ---
    Mutant("unique", "uq_orders_user_request", "one key becomes two orders",
           "sql/0001_tables.sql", "    CONSTRAINT uq_orders_user_request UNIQUE (user_id, request_id),\n", "",
           f"{PLACE}::test_rule19_same_key_on_another_item", "IDEMPOTENCY_KEY_REUSED"),
    Mutant("unique", "uq_orders_reservation", "one reservation becomes two orders",
           "sql/0001_tables.sql", "(user_id, request_id),\n    CONSTRAINT uq_orders_reservation UNIQUE (reservation_id)\n", "(user_id, request_id)\n",
           f"{PLACE}::TestRule19::test_same_reservation_of_another_buyer_is_a_collision", "stock_ledger_pkey"),
    Mutant("unique", "uq_orders_active", "a buyer gets two units",
           "sql/0001_tables.sql", "CREATE UNIQUE INDEX uq_orders_active", "CREATE INDEX uq_orders_active",
           f"{RACES}::test_one_buyer_from_eight_connections_at_once", "[0, 2, 2, 2, 2, 2"),
    Mutant("unique", "stock_ledger_key", "a reservation gives its unit back twice",
           "sql/0001_tables.sql", "    PRIMARY KEY (reservation_id, delta)\n", "    CHECK (true)\n",
           f"{MESSAGES}::test_a_reservation_gives_back_at_most_one_unit", "DID NOT RAISE"),
    # --- inbox ---
    Mutant("inbox", "inbox_key", "a message is placed again at each delivery",
           "sql/0001_tables.sql", "    PRIMARY KEY (message_id, consumer_group), ", "    CHECK (true), ",
           f"{PLACE}::test_delivered_100_times_changes_nothing", "inbox: 26 rows of 13"),
    Mutant("inbox", "inbox_group", "two transports' messages do not meet in the inbox",
           "function seckill_void", "c_group constant varchar := 'seckill-order-create-v1';", "c_group constant varchar := 'void';",
           f"{MESSAGES}::test_void_of_an_unknown_message", "(KNOWN, \"FAILED\", \"VOID\", True)"),
    # --- ack after commit ---
    Mutant("ack_after_commit", "ack_what_failed", "a message whose transaction failed is acknowledged",
           "src/app/place.c", "            disposal_retry_later(b->w, b->item, ks, n, deliveries);", "            disposal_ack(b->w, b->item, ks, n), (void)deliveries;",
           "flow_worker_place_test::test_three_conflicts_give_it_back_uncounted", "| ack 1\" != "),
    Mutant("ack_after_commit", "unknown_is_committed", "a COMMIT of unknown outcome is taken for done",
           "src/app/place.c", "    if (rc >= 0) {\n        b->any_ok = true;", "    if (rc >= 0 || rc == ERR_UNCERTAIN) {\n        b->any_ok = true;",
           "flow_worker_place_test::test_a_lost_commit_is_asked_again", "place 1=ERR_UNCERTAIN | settle 1"),
    Mutant("ack_after_commit", "ack_what_is_not_buried", "a message that could not be stored as a dead letter is acknowledged",
           "src/app/burial.c", "        if (j->rc < 0)\n            end_not_stored(w, j->rc);\n        else\n            end_stored(w);",
           "        if (false)\n            end_not_stored(w, j->rc);\n        else\n            end_stored(w);",
           "flow_worker_place_test::test_what_cannot_be_buried_is_not_acked", "\"ack\""),
    # --- void ---
    Mutant("void", "void_without_inbox_row", "an order is placed after its void",
           "function seckill_void", """        INSERT INTO consumer_inbox (consumer_group, message_id, request_id, reservation_id, user_id, activity_id, sku_id,
            status, last_error_code, processed_at)
        VALUES (c_group, p_message, p_request, p_reservation, p_user, p_activity, p_sku,
            'REJECTED', p_reason, clock_timestamp())
        ON CONFLICT DO NOTHING;
""", "        PERFORM 1;\n",
           f"{RACES}::test_order_and_void_race_500_times_each_direction", "assert voided == (False, \"COMPLETED\""),
    Mutant("void", "void_over_an_order", "a reservation is voided though its order stands",
           "function seckill_void", "WHERE o.reservation_id = p_reservation;\n            IF FOUND THEN", "WHERE o.reservation_id = p_reservation;\n            IF false THEN",
           f"{MESSAGES}::test_an_order_whose_inbox_row_is_gone_is_not_voided", "sale.void(m) == (False"),
    # --- epoch ---
    Mutant("epoch", "settle_during_a_rebuild", "an outcome is settled into an item that is being rebuilt",
           "lua/settle.lua", "if meta[3] then -- rule 2", "if false then -- rule 2",
           f"{SETTLE}::test_another_epoch_is_later", "LATER * 3"),
    Mutant("epoch", "settle_of_the_lost", "a reservation that the rebuild did not count gives a unit back",
           "lua/settle.lua", "    if r[2] ~= meta[1] then r[3] = 'RELEASED' end\n", "",
           f"{SETTLE}::test_what_a_rebuild_did_not_find", "sale.stock() == 3"),
    Mutant("epoch", "claim_any_epoch", "recovery claims a reservation of another epoch",
           "lua/claim.lua", " or r[3] ~= meta[1]", "", f"{MARKS}::test_claim_needs_its_own_epoch", "claim"),
    # --- the conditional update ---
    Mutant("conditional_update", "unconditional_update", "the whole batch is added to what is sold",
           "function seckill_place", " AND sold_stock + c_n <= total_stock;", ";",
           f"{PLACE}::test_rule18_surplus_is_the_last_by_seq", "ck_inventory_sold_range"),
    Mutant("conditional_update", "sold_range", "the last barrier against overselling is gone",
           "sql/0001_tables.sql", "CHECK (sold_stock >= 0 AND sold_stock <= total_stock)", "CHECK (true)",
           f"{PLACE}::test_total_is_the_last_barrier", "DID NOT RAISE"),
    # --- buyers only if mine ---
    Mutant("buyers_if_mine", "settle_anybodys", "a late release takes the next holder's entry away",
           "lua/settle.lua", "if entry and entry:sub(1, #id) == id and (", "if entry and (",
           f"{SETTLE}::test_cancelled_and_bought_again_an_old_release_changes_nothing", "sale.buyers() =="),
    Mutant("buyers_if_mine", "release_anybodys", "a strict release takes another reservation's entry away",
           "lua/release.lua", "if held and held:sub(1, #ARGV[4]) == ARGV[4] then", "if held then",
           f"{SETTLE}::test_a_strict_release_leaves_the_next_holder_alone", "sale.buyers() =="),
    # --- deadline ---
    Mutant("deadline", "no_deadline", "a delayed call takes a unit for somebody who left",
           "lua/reserve.lua", "if now >= ARGV[6] and ARGV[6] ~= '0' then return 5 .. head end\n", "",
           f"{RESERVE}::test_deadline", "TOO_LATE"),
    Mutant("deadline", "window_by_nobody", "units are sold after the end",
           "lua/reserve.lua", "if now >= meta[5] or meta[3] == 'CLOSED'", "if meta[3] == 'CLOSED'",
           f"{RESERVE}::test_the_window_opens_and_closes_by_redis_time", "assert"),
    # --- lease margin ---
    Mutant("lease_margin", "no_margin", "a transaction begins when its lease is as good as over",
           "src/app/hand.c", "return k->m->lease_until_us - k->w->cfg.lease_margin_us;", "return k->m->lease_until_us;",
           "flow_worker_intake_test::test_a_transaction_ends_a_margin_before_its_lease", "hand_active"),
    Mutant("lease_margin", "late_is_placed", "what another worker may have by now is placed",
           "src/app/place.c", "        if (w->sched->now_us < hand_deadline_us(k)) {", "        if (w->sched->now_us >= 0) {",
           "flow_worker_intake_test::test_a_pause_that_was_slept_through_is_not_followed_by_a_try", "hand_active"),
    Mutant("lease_margin", "beyond_the_lease", "a transaction runs on beyond its lease",
           "src/app/place.c", "        deadline = lease < deadline ? lease : deadline;", "        (void)lease;",
           "flow_worker_intake_test::test_a_transaction_ends_a_margin_before_its_lease", "hand_active"),
    # --- drain order ---
    Mutant("drain_order", "end_with_a_full_hand", "the worker ends with messages in hand",
           "src/app/worker.c", "|| !w->on_idle || w->hand.used > 0 ||", "|| !w->on_idle ||",
           "flow_worker_intake_test::test_a_drain_while_postgresql_is_away", "panic: 0 lanes busy, 1 messages waiting"),
    Mutant("drain_order", "receive_while_draining", "a draining worker goes on receiving",
           "src/app/intake.c", "    if (w->stopping) {\n        flow_goto(f, STOPPED);\n        return FLOW_NEXT;\n    }\n    in->asked = 0;", "    in->asked = 0;",
           "flow_worker_intake_test::test_a_drain_finishes_what_is_in_hand", "x->idle"),
    Mutant("drain_order", "unmarked_at_the_end", "settled rows are left unmarked at the end",
           "src/app/worker.c", "    if (!w->canceled && !marks_idle(w)) {", "    if (false) {",
           "flow_worker_intake_test::test_a_drain_finishes_what_is_in_hand", "mem_db_unsettled"),
    Mutant("drain_order", "stop_serving_at_once", "connections are refused while the balancers still send them",
           "src/daemon/common/lifecycle.c", "&c->timer, c->endpoints_us);", "&c->timer, 0);",
           "tests/e2e/test_6_drain.py::test_seckill_api_still_serves_while_the_balancers_look", "answers meanwhile"),
    # --- retry cap ---
    Mutant("retry_cap", "tx_attempts", "a transaction is repeated for ever",
           "src/app/place.c", "b->tries >= w->cfg.tx_attempts || ", "",
           "flow_worker_place_test::test_three_conflicts_give_it_back_uncounted", "later 1"),
    Mutant("retry_cap", "retry_budget", "an outage's retries have no budget",
           "src/app/place.c", "\n        !retry_budget_take(&w->health.retries, w->sched->now_us))", "\n        false)",
           "flow_worker_place_test::test_retries_have_a_budget", "later 1"),
    Mutant("retry_cap", "max_attempts", "a message that always fails is tried for ever",
           "src/app/place.c", "bool buried = rc >= 0 && count >= w->cfg.max_attempts;", "bool buried = false;",
           "flow_worker_place_test::test_one_bad_message_among_good_ones", "mem_db_dead_letters"),
    Mutant("retry_cap", "again_max", "AGAIN runs in a circle",
           "src/app/finish.c", "if (++k->again <= AGAIN_MAX) {", "if (++k->again > 0) {",
           "flow_worker_place_test::test_again_is_bounded", "later 1"),
    # --- slots ---
    Mutant("slots_first", "reserve_taken_slots", "more is received than there are slots",
           "src/app/intake.c", "        in->asked = hand_reserve(w, room(w));", "        in->asked = in->want, w->hand.reserved += in->asked;\n    (void)room;",
           "flow_worker_intake_test::test_never_more_than_workers_and_queue", "h->used + h->reserved"),
    Mutant("slots_first", "take_the_surplus", "what the queue returns too much is taken",
           "src/app/intake.c", "        if (n < in->asked) {", "        if (n < in->asked + 3) {",
           "flow_worker_intake_test::test_a_queue_that_returns_too_much_does_not_break_the_bound", "panic: 1 slots given back, 0 reserved"),
    # --- moves ---
    Mutant("moves", "settle_any_rank", "an outcome is settled twice",
           "lua/settle.lua", "elseif rank < has or rank == has and not (row and row.reason == 'LOST_ORDER' and r[4] == OWN) then", "elseif rank < 0 then",
           f"{SETTLE}::test_a_higher_rank_wins_at_equal_rank_the_first", "'0' == '1'"),
    Mutant("moves", "mark_settled", "a mark reopens a settled reservation",
           "lua/mark.lua", " or not (from == 'RESERVED' or from == 'MQ_SENT' or from == 'MQ_PENDING')", "",
           f"{MARKS}::test_mark_never_touches_what_is_settled", "0 == 1"),
    Mutant("moves", "claim_settled", "recovery claims what is settled",
           "lua/claim.lua", " or r[2] == 'ORDERED' or r[2] == 'RELEASED'", "", f"{MARKS}::test_claim", "0 == 1"),
    Mutant("moves", "release_sent", "a published reservation is taken back",
           "lua/release.lua", " or r[2] ~= 'RESERVED'", "", f"{SETTLE}::test_a_strict_release_only_from_reserved", "0 == 1"),
    Mutant("moves", "seq_stands", "a returned unit is not news",
           "lua/settle.lua", "  seq = (seq + 1) .. ''\n", "", f"{SETTLE}::test_many_rows_are_one_step_and_one_message", "101 + 1"),
    # --- one unit ---
    Mutant("one_unit", "replay_takes_a_unit", "the same key takes a second unit",
           "lua/reserve.lua", "if known[1] then return", "if false then return",
           f"{RESERVE}::test_a_replay_tells_the_same", "2 == 1"),
    Mutant("one_unit", "duplicate_takes_a_unit", "a buyer takes a second unit",
           "lua/reserve.lua", "if held then return", "if false then return",
           f"{RESERVE}::test_a_duplicate_hears_of_its_own", "3 == 2"),
    Mutant("one_unit", "below_zero", "stock falls below zero",
           "lua/reserve.lua", "if (stock:byte() or 0) < 49 then return 3 .. head end", "if false then return 3 .. head end",
           f"{RESERVE}::test_stock_is_sold_exactly_once", "101 == 100"),
    # --- surplus ---
    Mutant("surplus", "the_last_come_first", "the latest are served before the first",
           "function seckill_place", "ORDER BY m.epoch, m.seq, m.message_id OFFSET v_admitted", "ORDER BY m.epoch, m.seq DESC, m.message_id OFFSET v_admitted",
           f"{PLACE}::test_rule18_surplus_is_the_last_by_seq", "[CREATED] * 5"),
    Mutant("surplus", "reject_on_a_stale_read", "a buyer is rejected although a unit came back",
           "function seckill_place", "                IF v_free > 0 THEN\n                    RAISE EXCEPTION USING ERRCODE = 'SKFRE';", "                IF false THEN\n                    RAISE EXCEPTION USING ERRCODE = 'SKFRE';",
           f"{PLACE}::test_rule18_nothing_free_is_decided_under_the_lock", "PG_STOCK_EXHAUSTED"),
    Mutant("surplus", "never_existed", "a unit that PostgreSQL never had goes back to Redis",
           "function seckill_place", "CASE WHEN z.own THEN z.closed ELSE z.reason <> 'PG_STOCK_EXHAUSTED' END", "CASE WHEN z.own THEN z.closed ELSE true END",
           f"{PLACE}::test_rule18_twice_the_stock_sells_exactly_the_total", "'PG_STOCK_EXHAUSTED', True"),
    # --- unknown ---
    Mutant("unknown", "unknown_publish_is_refused", "a unit is taken back though its event may be in the queue",
           "src/app/reserve_publish.c", "return r->publish_rc < 0 && !err_is_unknown(r->publish_rc);", "return r->publish_rc < 0;",
           "flow_reserve_strict_test::test_every_fault", "rule 14: unknown, done"),
    Mutant("unknown", "own_replay_is_a_replay", "the hold of a second try is not published",
           "src/app/reserve.c", "(r->rc == STOCK_REPLAY && reserve_is_own(r))) &&", "false) &&",
           "flow_reserve_publish_test::test_only_a_confirmed_hold_is_published", "!= \"HOLD@0.0 HOLD_AGAIN@1.0 PUBLISH@2.0"),
    Mutant("unknown", "refused_after_unknown", "a buyer who may hold a unit is told that there is none",
           "src/app/reserve_answer.c", "return !r->unknown || (r->rc >= 0 && r->hold.sent_us >= r->first_give_up_us);", "return r != NULL;",
           "flow_reserve_fault_test::test_every_fault", "rule 14: done unseen, then refused"),
    # --- recovery ---
    Mutant("recovery", "void_at_unknown_age", "a reservation is voided while nobody knows the backlog",
           "src/app/recover_plan.c", "return row->position_known && recover_held", "return recover_held",
           "flow_worker_recover_test::test_age_unknown_never_voids", "\"void\""),
    Mutant("recovery", "hold_runs_in_an_outage", "an outage uses the hold up",
           "src/app/recover_plan.c", "return health_usable_since_us(w, since) >= w->cfg.max_hold_us;", "return true;",
           "flow_worker_recover_test::test_void_after_many_publishes", "\"FAILED/VOID\" != \"QUEUED\""),
    Mutant("recovery", "publish_before_a_round", "a healthy backlog is doubled after an outage",
           "src/app/recover_plan.c", "w->intake.last_full_round_us >= w->health.breaker.closed_at_us &&\n           w->intake.last_full_round_us >= 0 && ", "",
           "flow_worker_recover_test::test_nothing_is_published_before_a_full_receive_round", "\"claim\""),
    Mutant("recovery", "publish_what_waits", "what still waits in the queue is published again",
           "src/app/recover_plan.c", "return row->position == QUEUE_PASSED;", "return true;",
           "flow_worker_recover_test::test_a_backlog_is_left_alone", "\"claim\""),
    # --- hint ---
    Mutant("hint", "install_the_old", "buyers are refused by a set from before a unit came back",
           "src/core/hint.c", "    if (item_version_cmp(set->version, h->seen) < 0) {", "    if (false) {",
           "core_hint_test::test_rule_10_a_version_heard_during_the_load_throws_the_set_away", "hint_install(&h, loaded"),
    Mutant("hint", "refuse_members", "a buyer who holds a unit is told that it is sold out",
           "src/core/hint.c", "if (now_us >= h->valid_until_us || hint_set_has(h->set, user_id))", "if (now_us >= h->valid_until_us + 0 * user_id)",
           "core_hint_test::test_members_are_never_refused", "hint_decide"),
    # --- commands ---
    Mutant("commands", "cancel_the_paid", "a paid order is cancelled",
           "function seckill_cancel", "                (2, u.kind = 'ORDER' AND u.status = 'PAID', 'REFUSED', 'PAID'),\n", "",
           f"{LIFE}::test_rule27_a_paid_order_cannot_be_cancelled", "'ALREADY' != 'REFUSED'"),
    Mutant("commands", "expire_the_paid", "an order expires though its payment was accepted in time",
           "function seckill_expire", "AND p.accepted_at <= o.created_at", "AND p.accepted_at < o.created_at - interval '1 day'",
           f"{LIFE}::test_rule31_a_payment_accepted_in_time_holds_its_order", "expire"),
    Mutant("commands", "anybodys_order", "a buyer cancels somebody else's order",
           "function seckill_command_target", "WHERE w.user_id = p_user AND w.request_id = p_request AND w.activity_id = p_activity AND w.sku_id = p_sku\n        LIMIT 1) o", "WHERE w.order_id = p_order\n        LIMIT 1) o",
           f"{LIFE}::test_nobody_touches_another_buyers_order", "'PARKED' != 'REFUSED'"),
    # --- quarantine ---
    Mutant("quarantine", "replay_the_settled", "a settled message is placed again by a replay",
           "function seckill_replay", "\n        AND i.status = 'QUARANTINED';\n    IF NOT FOUND THEN", ";\n    IF NOT FOUND THEN",
           f"{MESSAGES}::test_rule25_quarantine_then_void", "seckill_replay"),
    # --- rebuild ---
    Mutant("rebuild", "restore_at_any_epoch", "a step held back in the network writes into a later rebuild",
           "lua/rebuild_restore.lua", "if meta[1] ~= ARGV[1] or meta[3] ~= ARGV[1] or step", "if not meta[4] or step",
           f"{REBUILD}::test_each_step_once", "late().code == 1"),
    Mutant("rebuild", "begin_at_any_epoch", "an older rebuild closes an item that a newer one has opened",
           "lua/rebuild_begin.lua", "if had > epoch or had == epoch and meta[3] ~= ARGV[2] then", "if false then",
           f"{REBUILD}::test_each_step_once", "Rebuild(sale, epoch=1).begin().code"),
    Mutant("rebuild", "behind_is_believed", "units are sold out of a Redis that lost its last writes",
           "lua/reserve.lua", "  if meta[2] + 0 < ARGV[8] + 0 or (key and call('EXISTS', key) == 0) then return 9 .. head end\n", "  key = nil\n",
           f"{RESERVE}::test_rule_34a_a_store_that_went_back", "== BEHIND"),
    # --- reconcile ---
    Mutant("reconcile", "stock_is_raised", "a repair invents units",
           "lua/lower.lua", "local surplus = math.max(math.min(stock + held - total, tonumber(stock)), 0)\nif surplus > 0 or total ~= meta[3] then\n  if surplus > 0 then", "local surplus = stock + held - total\nif surplus ~= 0 or total ~= meta[3] then\n  if surplus ~= 0 then",
           f"{RECONCILE}::test_stock_is_only_ever_lowered", "sale.lower().words"),
    Mutant("reconcile", "mend_anybodys", "a repair takes the next holder's entry away",
           "lua/mend.lua", "entry and entry:sub(1, #r[1]) == r[1] then", "entry then",
           f"{RECONCILE}::test_an_entry_of_another_reservation_stays", "sale.mend(a).code"),
]

/* Messages that will never become an order by themselves: stored as dead letters, then acked; while
 * they cannot be stored they are not acked (rule 24). Loop thread. */
#pragma once

struct worker;
struct work;

/* Bytes that are no event: raw, without ids. why: a static string. */
void burial_undecodable(struct work *k, const char *why);
/* An event with its ids: also quarantined in the inbox (rule 25). on_end, if not NULL, is called
 * when the storing has ended, before the ack; k is no longer the caller's from the start. */
void burial_start(struct work *k, const char *why, void (*on_end)(struct worker *w));

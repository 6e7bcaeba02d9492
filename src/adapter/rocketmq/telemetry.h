/* A session at one proxy: the stream of settings and commands, and its heartbeats.
 *
 *   DOWN ─ open ─► OPEN ─ settings answered ─► SETTLED
 *    ▲               │ no answer in time            │ stream lost, settings lost
 *    └───────────────┴──────────────────────────────┘  again after 1 s, backing off to 30 s
 */
#pragma once

#include "adapter/rocketmq/session.h"

void rmq_member_init(struct rmq_member *m, struct rmq_session *s, struct rmq_channel *ch);
void rmq_member_join(struct rmq_member *m);  /* harmless when it is there */
void rmq_member_leave(struct rmq_member *m); /* harmless when it left; says goodbye */

/* session.c: a call of the closing session ended. */
void rmq_session_check_closed(struct rmq_session *s);

/* Asks a server to give up a statement whose answer nobody waits for any more. Best effort. */
#pragma once

#include <libpq-fe.h>

/* libpq 15 can cancel only in a blocking way (it connects, writes, and waits for the end of file
 * without a limit), so it is done on a thread of its own, of which there are a few at most; without
 * a free one nothing is sent: the server notices the closed connection
 * (client_connection_check_interval) or its statement timeout ends it. Never waits. */
void pg_cancel_detached(PGconn *pg);

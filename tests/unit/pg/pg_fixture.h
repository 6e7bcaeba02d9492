/* A migrated private database, a port on it, and rows to place. */
#pragma once

#include "adapter/pg/pg.h"
#include "adapter/pg/pg_admin.h"
#include "base/clock.h"
#include "support/private_pg.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

extern struct private_pg fixture_pg;

int fixture_setup(void **state); /* starts and migrates */
int fixture_teardown(void **state);

/* With a port on it. */
extern struct orders *fixture_orders;
int fixture_port_setup(void **state);
int fixture_port_teardown(void **state);
void fixture_place(struct item item, struct orders_row *rows, int n); /* succeeds */

struct orders *fixture_port(const char *conninfo);
struct item fixture_item(int64_t total); /* a new one */
void fixture_rows(struct orders_row *rows, int n);
struct ctx fixture_ctx(int64_t us);
/* A number or text of one row and column; straight from psql's protocol. */
int64_t fixture_number(const char *sql);
void fixture_execute(const char *sql);

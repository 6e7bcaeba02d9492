/* The exchange of a connection: from a complete request to its answer. Between conn.c and
 * conn_answer.c. */
#pragma once

#include "adapter/http/conn.h"

/* Routes the complete request and hands it to its handler, which may answer at once. */
void http_exchange_begin(struct http_conn *c);
/* Answers a request that could not be read; the connection closes after it. */
void http_exchange_refuse(struct http_conn *c, enum answer a);
/* "100 Continue". */
void http_exchange_continue(struct http_conn *c);
/* The exchange is not with its handler any more. */
void http_exchange_over(struct http_conn *c);
/* A zombie has got its answer. */
void http_conn_release_zombie(struct http_conn *c);

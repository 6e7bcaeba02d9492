/* The numbers and texts around grpc-status: what each says of the world, and how they are spelled
 * on the wire (gRPC over HTTP/2, "PROTOCOL-HTTP2" and "statuscodes"). Pure. */
#pragma once

#include "base/str.h"

/* What a status that the server itself said tells of the world (err.h); 0 for GRPC_OK. */
int grpc_status_rc(int status);
/* The status that stands for an end of our own making. */
int grpc_status_of_rc(int rc);
/* The value of grpc-status: its number (above 16: GRPC_UNKNOWN), -1 when it is none. */
int grpc_status_parse(struct str text);
/* An answer without grpc-status. */
int grpc_status_of_http(int http_status);
/* RST_STREAM's error code. */
int grpc_status_of_reset(uint32_t code);

/* A remaining time as grpc-timeout, at most eight digits and a unit, rounded down but never to
 * nothing; returns its length. */
enum { GRPC_TIMEOUT_MAX = 24 };
size_t grpc_timeout_format(char dst[GRPC_TIMEOUT_MAX], int64_t us);
/* grpc-message, percent-decoded in place; what is no escape stays. Returns the new length. */
size_t grpc_percent_decode(char *text, size_t n);

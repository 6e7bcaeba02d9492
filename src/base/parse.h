/* Text to values, strictly: the whole text must be the value, no signs, spaces or prefixes that are
 * not named here. */
#pragma once

#include "base/str.h"

/* Decimal, optional leading '-', no leading '+', no leading zeros but "0" itself. 0 or ERR_INVALID.
 */
int parse_i64(struct str s, int64_t min, int64_t max, int64_t *out);
int parse_u64(struct str s, uint64_t max, uint64_t *out);
/* "true" "false" "yes" "no" "on" "off". */
int parse_bool(struct str s, bool *out);
/* "90ms" "2s" "15m" "1h" "3d" "250us"; a unit is required except for "0". Microseconds. */
int parse_duration_us(struct str s, int64_t *out);
/* "4096" "4KiB" "16MiB" "1GiB". */
int parse_size(struct str s, int64_t *out);
/* "host:port", "[::1]:port", port from 1. *host is without brackets: letters, digits and ".-_", in
 * brackets ':', too. */
int parse_host_port(struct str s, struct str *host, int *port);
/* "2026-06-25T12:00:00Z" with optional fraction and optional ±hh:mm; milliseconds since 1970. */
int parse_time_ms(struct str s, int64_t *out);
/* Writes "2026-06-25T12:00:00.123Z" (24 bytes, not terminated); returns 24. Years 1970–9999;
 * what lies outside is written as the nearest end. */
size_t parse_format_time_ms(char *dst, int64_t ms);

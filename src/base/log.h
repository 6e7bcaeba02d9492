/* Logs: one JSON object a line, on standard error, written with one write(2): lines of threads do
 * not mix. Fields have the seed's names (000 §12.1): request_id, reservation_id, message_id,
 * order_id, activity_id, sku_id, user_id, error_kind, retryable, outcome, duration_ms, …; service
 * and instance are added to each. Any thread. A line is at most 4 KiB; what does not fit is cut and
 * marked "cut":true. */
#pragma once

#include "base/str.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

struct log_field {
    const char *name;
    enum { LOG_FIELD_STR, LOG_FIELD_I64, LOG_FIELD_BOOL } type;
    struct str s;
    int64_t i;
};

#define LOG_S(name_, str_) ((struct log_field){.name = (name_), .type = LOG_FIELD_STR, .s = (str_)})
#define LOG_Z(name_, zstr_) LOG_S(name_, str_of(zstr_))
#define LOG_I(name_, int_) ((struct log_field){.name = (name_), .type = LOG_FIELD_I64, .i = (int_)})
#define LOG_B(name_, bool_)                                                                        \
    ((struct log_field){.name = (name_), .type = LOG_FIELD_BOOL, .i = (bool_)})

/* log_info("order created", LOG_I("order_id", id), LOG_S("request_id", rid)); */
#define log_at(level, ...) log_at_(level, __VA_ARGS__, (struct log_field){.name = NULL})
#define log_at_(level, msg, ...)                                                                   \
    do {                                                                                           \
        if (log_enabled(level))                                                                    \
            log_write(level, msg, (const struct log_field[]){__VA_ARGS__});                        \
    } while (0)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)

void log_setup(const char *service, const char *instance, enum log_level least);
void log_to_fd(int fd); /* tests */
bool log_enabled(enum log_level level);
/* Fields end with one whose name is NULL. */
void log_write(enum log_level level, const char *msg, const struct log_field *fields);

/* For a line that an outage would repeat thousands of times: true at most once a second per place,
 * with the number of times it was asked in between in *suppressed. */
struct log_limit {
    _Atomic int64_t next_us;
    _Atomic uint64_t suppressed;
};
bool log_allowed(struct log_limit *l, int64_t now_us, uint64_t *suppressed);

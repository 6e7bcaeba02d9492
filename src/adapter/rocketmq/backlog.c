#include "adapter/rocketmq/backlog.h"

#include "adapter/rocketmq/remoting_json.h"
#include "base/err.h"

/* Sums of them cannot overflow, since no body holds 1024 queues' worth of such offsets unnoticed:
 * above it is not an offset of this world. */
#define OFFSET_MAX (INT64_C(1) << 53)
#define AGE_MAX_MS (INT64_C(10) * 365 * 86400 * 1000)

/* {0:"host:port",1:…}: 0 is the master. */
static bool master_of(struct remoting_json *j, char out[BACKLOG_ADDRESS])
{
    bool found = false;
    remoting_json_enter(j, '{');
    for (int n = 0; remoting_json_more(j, '}', n); n++) {
        struct str id = remoting_json_key(j), address = remoting_json_text(j);
        if (str_eq(id, STR("0")) && !j->bad) {
            if (address.len == 0 || !str_copy(out, BACKLOG_ADDRESS, address))
                j->bad = true;
            found = true;
        }
    }
    return found;
}

int backlog_masters(struct str body, char (*out)[BACKLOG_ADDRESS])
{
    struct remoting_json j;
    int brokers = 0, masters = 0;
    bool listed = false;
    remoting_json_init(&j, body);
    remoting_json_enter(&j, '{');
    for (int n = 0; remoting_json_more(&j, '}', n); n++) {
        if (!str_eq(remoting_json_key(&j), STR("brokerDatas"))) {
            remoting_json_skip(&j);
            continue;
        }
        listed = remoting_json_enter(&j, '[');
        for (; remoting_json_more(&j, ']', brokers); brokers++) {
            if (brokers == BACKLOG_BROKERS)
                return ERR_OVERLOAD;
            bool has_master = false;
            remoting_json_enter(&j, '{');
            for (int k = 0; remoting_json_more(&j, '}', k); k++) {
                if (str_eq(remoting_json_key(&j), STR("brokerAddrs")))
                    has_master = master_of(&j, out[masters]);
                else
                    remoting_json_skip(&j);
            }
            masters += has_master;
        }
    }
    if (!remoting_json_done(&j) || !listed || brokers == 0)
        return ERR_INTERNAL;
    return masters == brokers ? masters : ERR_UNAVAIL;
}

static bool matches(struct str name, struct str topic)
{
    if (topic.len > 0 && topic.ptr[topic.len - 1] == '*')
        return str_starts(name, (struct str){topic.ptr, topic.len - 1});
    return str_eq(name, topic);
}

/* {"brokerName":…,"queueId":…,"topic":…} as the name of a member. */
static bool is_queue_of(struct remoting_json *j, const char *topic)
{
    bool named = false, same = false;
    remoting_json_enter(j, '{');
    for (int n = 0; remoting_json_more(j, '}', n); n++) {
        if (str_eq(remoting_json_key(j), STR("topic"))) {
            same = matches(remoting_json_text(j), str_of(topic));
            named = true;
        } else {
            remoting_json_skip(j);
        }
    }
    if (!named)
        j->bad = true;
    return same;
}

static int64_t waiting_in(struct remoting_json *j)
{
    int64_t broker = -1, consumer = -1;
    int seen = 0;
    remoting_json_enter(j, '{');
    for (int n = 0; remoting_json_more(j, '}', n); n++) {
        struct str key = remoting_json_key(j);
        if (str_eq(key, STR("brokerOffset"))) {
            broker = remoting_json_i64(j, -1, OFFSET_MAX);
            seen |= 1;
        } else if (str_eq(key, STR("consumerOffset"))) {
            consumer = remoting_json_i64(j, -1, OFFSET_MAX);
            seen |= 2;
        } else {
            remoting_json_skip(j);
        }
    }
    if (seen != 3)
        j->bad = true;
    /* -1: no offset yet. The two are not read at one instant: never below 0. */
    if (consumer < 0)
        consumer = 0;
    return !j->bad && broker > consumer ? broker - consumer : 0;
}

int backlog_waiting(struct str body, const char *topic, int64_t *waiting)
{
    struct remoting_json j;
    int64_t sum = 0;
    int queues = 0;
    bool listed = false;
    remoting_json_init(&j, body);
    remoting_json_enter(&j, '{');
    for (int n = 0; remoting_json_more(&j, '}', n); n++) {
        if (!str_eq(remoting_json_key(&j), STR("offsetTable"))) {
            remoting_json_skip(&j);
            continue;
        }
        listed = remoting_json_enter(&j, '{');
        for (int k = 0; remoting_json_more(&j, '}', k); k++) {
            bool ours = is_queue_of(&j, topic);
            remoting_json_colon(&j);
            int64_t here = waiting_in(&j);
            if (ours) {
                sum += here;
                queues++;
            }
            if (sum > OFFSET_MAX)
                return ERR_INTERNAL;
        }
    }
    if (!remoting_json_done(&j) || !listed)
        return ERR_INTERNAL;
    *waiting += sum;
    return queues;
}

/* One queue's. Where the group has no position yet, the broker says "since 1970" (its own now, that
 * is); then the oldest message of the queue, if it has any, is the one. */
static int64_t delay_in(struct remoting_json *j)
{
    int64_t delay = 0, oldest = -2, newest = -2; /* -1: the queue is empty; -2: not told */
    bool told = false;
    remoting_json_enter(j, '{');
    for (int n = 0; remoting_json_more(j, '}', n); n++) {
        struct str key = remoting_json_key(j);
        if (str_eq(key, STR("delayTime"))) {
            delay = remoting_json_i64(j, -AGE_MAX_MS, OFFSET_MAX);
            told = true;
        } else if (str_eq(key, STR("minTimeStamp"))) {
            oldest = remoting_json_i64(j, -1, OFFSET_MAX);
        } else if (str_eq(key, STR("maxTimeStamp"))) {
            newest = remoting_json_i64(j, -1, OFFSET_MAX);
        } else {
            remoting_json_skip(j);
        }
    }
    if (!told)
        j->bad = true;
    if (j->bad || delay <= AGE_MAX_MS)
        return delay;
    if (newest == -1 && oldest == -1)
        return 0;
    if (newest < 0 || oldest < 0)
        j->bad = true;
    return j->bad ? 0 : delay - oldest;
}

int backlog_oldest_ms(struct str body, int64_t *age_ms)
{
    struct remoting_json j;
    int64_t oldest = 0;
    bool listed = false;
    remoting_json_init(&j, body);
    remoting_json_enter(&j, '{');
    for (int n = 0; remoting_json_more(&j, '}', n); n++) {
        if (!str_eq(remoting_json_key(&j), STR("consumeTimeSpanSet"))) {
            remoting_json_skip(&j);
            continue;
        }
        listed = remoting_json_enter(&j, '[');
        for (int k = 0; remoting_json_more(&j, ']', k); k++) {
            int64_t delay = delay_in(&j);
            oldest = delay > oldest ? delay : oldest;
        }
    }
    if (!remoting_json_done(&j) || !listed || oldest > AGE_MAX_MS)
        return ERR_INTERNAL;
    *age_ms = oldest > *age_ms ? oldest : *age_ms;
    return 0;
}

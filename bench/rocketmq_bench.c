/* Figures of the queue port on a real RocketMQ, driven by bench/rocketmq.py. Words: NAME=VALUE of
 * the configuration, broker_pid=PID (its CPU time), then rows, one after the other:
 *
 *   publish:COUNT:AT_ONCE   order events, so many on the wire at any time
 *   consume[:COUNT]         these, or all that was published and not consumed: received as a worker
 *                           does, acked by the batch
 *   both:COUNT:AT_ONCE      published, and consumed meanwhile, as in a sale
 *
 * One line of JSON per row. CPU is user + system; "others" is what else ran on the machine, in
 * cores. */
#include "adapter/rocketmq/rocketmq.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/panic.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { AT_ONCE_MAX = 1024, COUNT_MAX = 1000000, SLOTS = 768, BATCH_MAX = 256 };

#define PATIENCE_US 30000000 /* without any progress */
#define OP_US 3000000

static struct rocketmq_config config;
static int broker_pid;
static struct loop *loop;
static struct rng ids;
static int outstanding; /* published and not consumed */

/* --- CPU time: ours, the broker's, the machine's --- */
struct spent {
    int64_t wall_us, ours_us, broker_us, machine_us;
};

/* The sum of some of the words of a file's first line: bit i of `which` stands for word i, counted
 * from behind the last ')' (a process's name may hold anything). */
static int64_t ticks_of(const char *path, unsigned which)
{
    char text[1024];
    int64_t sum = 0;
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    char *line = fgets(text, sizeof text, f), *rest = NULL;
    fclose(f);
    if (!line)
        return 0;
    char *name_end = strrchr(line, ')');
    char *word = strtok_r(name_end ? name_end + 1 : line, " \n", &rest);
    for (int i = 0; word && i < 32; i++, word = strtok_r(NULL, " \n", &rest))
        sum += which >> i & 1 ? atoll(word) : 0;
    return sum * 1000000 / sysconf(_SC_CLK_TCK);
}

static struct spent spent_now(void)
{
    char path[64];
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    snprintf(path, sizeof path, "/proc/%d/stat", broker_pid);
    return (struct spent){
        .wall_us = clock_mono_us(),
        .ours_us = (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec +
                   u.ru_stime.tv_usec,
        .broker_us = broker_pid ? ticks_of(path, 3U << 11) : 0, /* utime, stime */
        /* user, nice, system, irq, softirq, steal */
        .machine_us = ticks_of("/proc/stat", 0x1ceU),
    };
}

static void tell(const char *row, int at_once, int n, const struct spent *from,
                 const struct spent *to)
{
    double s = (double)(to->wall_us - from->wall_us) / 1e6;
    double ours = (double)(to->ours_us - from->ours_us);
    double broker = (double)(to->broker_us - from->broker_us);
    double others = (double)(to->machine_us - from->machine_us) - ours - broker;
    printf("{\"row\":\"%s\",\"who\":\"seckill\",\"at_once\":%d,\"messages\":%d,\"seconds\":%.3f,"
           "\"per_s\":%.0f,\"cpu_us\":%.2f,\"broker_cpu_us\":%.1f,\"others\":%.2f",
           row, at_once, n, s, n / s, ours / n, broker / n, others / 1e6 / s);
}

/* --- publish --- */
static struct publish {
    struct queue_publish p;
    struct event e;
    int64_t begun_us;
} publishes[AT_ONCE_MAX];
static struct {
    int left, under_way, done;
    bool alone; /* nobody consumes meanwhile */
    int64_t *took_us;
    size_t body;
} publishing;

static struct queue *queue;

static void publish_next(struct publish *x);

static void make_event(struct event *e)
{
    static int64_t number;
    int64_t wall_us = loop_wall_us(loop);
    number++;
    *e = (struct event){
        .message_id = uuid_v7(wall_us / 1000, &ids),
        .request_id = uuid_v7(wall_us / 1000, &ids),
        .reservation_id = uuid_v7(wall_us / 1000, &ids),
        .item = {1001, 2001},
        .user_id = 1000000 + number,
        .order_id = INT64_C(7300000000000000000) + number,
        .created_at_us = wall_us,
        .schema_version = EVENT_SCHEMA_VERSION,
        .version = {1, number},
        .traceparent = STR("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        .tracestate = STR(""),
    };
}

static void on_published(struct op *op, int rc)
{
    struct publish *x = container_of(op, struct publish, p.op);
    if (rc)
        panic("publish: %s (%s)", err_name(rc),
              rocketmq_queue_complaint(queue) ? rocketmq_queue_complaint(queue) : "-");
    publishing.took_us[publishing.done++] = clock_mono_us() - x->begun_us;
    publishing.under_way--;
    if (publishing.left > 0)
        publish_next(x);
    else if (publishing.under_way == 0 && publishing.alone)
        loop_stop(loop);
}

static void publish_next(struct publish *x)
{
    make_event(&x->e);
    x->begun_us = clock_mono_us();
    memset(&x->p, 0, sizeof x->p);
    x->p.event = &x->e;
    x->p.op = (struct op){.on_done = on_published, .deadline_us = x->begun_us + OP_US};
    publishing.left--;
    publishing.under_way++;
    queue->ops->publish(queue, &x->p);
}

static int by_size(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void publish_start(int count, int at_once, bool alone)
{
    publishing.took_us = calloc((size_t)count, sizeof *publishing.took_us);
    if (!publishing.took_us)
        panic("no memory");
    publishing.left = count;
    publishing.done = publishing.under_way = 0;
    publishing.alone = alone;
    for (int i = 0; i < at_once && publishing.left > 0; i++)
        publish_next(&publishes[i]);
}

static void tell_published(int count)
{
    char body[EVENT_MAX_BYTES];
    struct strbuf b;
    strbuf_init_fixed(&b, body, sizeof body);
    event_encode(&publishes[0].e, false, &b);
    qsort(publishing.took_us, (size_t)count, sizeof *publishing.took_us, by_size);
    printf(",\"p50_us\":%lld,\"p99_us\":%lld,\"max_us\":%lld,\"body\":%zu",
           (long long)publishing.took_us[count / 2],
           (long long)publishing.took_us[(int64_t)count * 99 / 100],
           (long long)publishing.took_us[count - 1], b.len);
    free(publishing.took_us);
}

static void publish(int count, int at_once)
{
    struct spent from = spent_now();
    publish_start(count, at_once, true);
    loop_run(loop);
    struct spent to = spent_now();
    outstanding += count;
    tell("publish", at_once, count, &from, &to);
    tell_published(count);
    printf("}\n");
}

/* --- consume --- */
static struct queue *consumer;
static struct {
    struct queue_receive r;
    bool receiving;
    int wanted, taken, acked, in_hand, receives, acks;
    int first; /* what came with the first answer is not counted: it began before */
    struct spent from;
    struct timer watch;
    int seen;
} consuming;
struct acking {
    struct queue_batch b;
    struct queue_message *m[BATCH_MAX];
};

static void receive_more(void);

static void on_acked(struct op *op, int rc)
{
    struct acking *a = container_of(op, struct acking, b.op);
    if (rc || a->b.done != a->b.n)
        panic("ack: %s, %d of %d", err_name(rc), a->b.done, a->b.n);
    for (int i = 0; i < a->b.n; i++)
        consumer->ops->release(consumer, a->m[i]);
    consuming.acked += a->b.n;
    consuming.in_hand -= a->b.n;
    free(a);
    if (consuming.acked >= consuming.wanted)
        loop_stop(loop);
    else
        receive_more();
}

static void on_received(struct op *op, int rc)
{
    struct acking *a = NULL;
    (void)op;
    if (rc && rc != ERR_UNAVAIL)
        panic("receive: %s", err_name(rc));
    consuming.receiving = false;
    if (consuming.r.n > 0) {
        if (consuming.taken == 0) {
            consuming.first = consuming.r.n;
            consuming.from = spent_now();
        }
        consuming.receives++;
        a = calloc(1, sizeof *a);
        if (!a)
            panic("no memory");
        for (struct list *l; (l = list_pop_front(&consuming.r.messages));)
            a->m[a->b.n++] = container_of(l, struct queue_message, link);
        consuming.taken += a->b.n;
        consuming.in_hand += a->b.n;
        a->b.messages = a->m;
        a->b.op = (struct op){.on_done = on_acked, .deadline_us = clock_mono_us() + OP_US};
        consuming.acks++;
        consumer->ops->ack(consumer, &a->b);
    }
    receive_more();
}

static void receive_more(void)
{
    int left = consuming.wanted - consuming.taken, room = SLOTS - consuming.in_hand;
    int n = room < BATCH_MAX ? room : BATCH_MAX;
    /* As a worker: not for each single slot that becomes free. */
    if (consuming.receiving || left <= 0 || n < 16)
        return;
    memset(&consuming.r, 0, sizeof consuming.r);
    consuming.r.max = n;
    consuming.r.op = (struct op){.on_done = on_received, .deadline_us = clock_mono_us() + 5000000};
    consuming.receiving = true;
    consumer->ops->receive(consumer, &consuming.r);
}

static void on_watch(struct timer *t)
{
    if (consuming.seen == consuming.acked)
        panic("no progress: %d of %d acked", consuming.acked, consuming.wanted);
    consuming.seen = consuming.acked;
    sched_set_in(loop_sched(loop), t, PATIENCE_US);
}

static void on_pause(struct timer *t)
{
    (void)t;
    loop_stop(loop);
}

static void await_ready(struct queue *q)
{
    int64_t end = clock_mono_us() + PATIENCE_US;
    struct timer pause = {.on_fire = on_pause};
    while (!rocketmq_queue_ready(q)) {
        const char *complaint = rocketmq_queue_complaint(q);
        if (clock_mono_us() > end)
            panic("not ready: %s", complaint ? complaint : "no answer");
        sched_set_in(loop_sched(loop), &pause, 5000);
        loop_run(loop);
    }
}

static struct queue *open_queue(bool consume)
{
    char err[256] = "";
    struct rocketmq_config c = config;
    c.consume = consume;
    c.max_in_hand = SLOTS;
    struct queue *q = rocketmq_queue_new(loop, &c, err, sizeof err);
    if (!q)
        panic("%s", err);
    await_ready(q);
    return q;
}

static void on_closed(struct op *op, int rc)
{
    (void)op;
    (void)rc;
    loop_stop(loop);
}

static void close_queue(struct queue *q)
{
    struct op op = {.on_done = on_closed, .deadline_us = clock_mono_us() + 10000000};
    rocketmq_queue_close(q, &op);
    loop_run(loop);
    rocketmq_queue_free(q);
}

static void consume_start(int count)
{
    memset(&consuming, 0, sizeof consuming);
    consuming.wanted = count;
    consuming.watch.on_fire = on_watch;
    consumer = open_queue(true);
    sched_set_in(loop_sched(loop), &consuming.watch, PATIENCE_US);
    receive_more();
}

static void consume_end(void)
{
    sched_clear(loop_sched(loop), &consuming.watch);
    printf(",\"receives\":%d,\"acks\":%d}\n", consuming.receives, consuming.acks);
    close_queue(consumer);
}

static void consume(int count)
{
    consume_start(count);
    loop_run(loop);
    struct spent to = spent_now();
    int n = consuming.taken - consuming.first;
    outstanding -= consuming.acked;
    tell("consume", SLOTS, n > 0 ? n : consuming.taken, &consuming.from, &to);
    consume_end();
}

static void both(int count, int at_once)
{
    consume_start(count);
    struct spent from = spent_now();
    publish_start(count, at_once, false);
    loop_run(loop);
    struct spent to = spent_now();
    tell("both", at_once, count, &from, &to);
    tell_published(count);
    consume_end();
}

/* --- the command line --- */
static bool option(const char *word)
{
    const struct {
        const char *name;
        const char **text;
    } known[] = {{"endpoints", &config.endpoints},   {"namesrv", &config.namesrv},
                 {"topic", &config.topic},           {"group", &config.group},
                 {"dead_group", &config.dead_group}, {"ca_file", &config.ca_file}};
    const struct {
        const char *name;
        int *number;
    } numbers[] = {{"broker_pid", &broker_pid},
                   {"max_sends", &config.max_sends},
                   {"send_batch", &config.send_batch}};
    const char *value = strchr(word, '=');
    if (!value)
        return false;
    size_t n = (size_t)(value++ - word);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strlen(numbers[i].name) == n && memcmp(word, numbers[i].name, n) == 0) {
            *numbers[i].number = atoi(value);
            return true;
        }
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i].name) == n && memcmp(word, known[i].name, n) == 0) {
            *known[i].text = value;
            return true;
        }
    }
    return false;
}

static void row(const char *word)
{
    int count = outstanding, at_once;
    if (sscanf(word, "publish:%d:%d", &count, &at_once) == 2 && count > 0 && count <= COUNT_MAX &&
        at_once > 0 && at_once <= AT_ONCE_MAX)
        publish(count, at_once);
    else if (sscanf(word, "both:%d:%d", &count, &at_once) == 2 && count > 0 && count <= COUNT_MAX &&
             at_once > 0 && at_once <= AT_ONCE_MAX)
        both(count, at_once);
    else if ((strcmp(word, "consume") == 0 || sscanf(word, "consume:%d", &count) == 1) && count > 0)
        consume(count);
    else
        panic("what is %s?", word);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int i = 1;
    while (i < argc && option(argv[i]))
        i++;
    config.tls = config.ca_file != NULL;
    log_setup("rocketmq_bench", "1", LOG_WARN);
    rng_init(&ids);
    loop = loop_new();
    if (!loop)
        panic("no loop");
    queue = open_queue(false);
    for (; i < argc; i++)
        row(argv[i]);
    close_queue(queue);
    loop_free(loop);
    return 0;
}

/* The producer half, driven line by line: what test_producer.py starts. Options of the
 * configuration as words NAME=VALUE; then commands on standard input, one line of JSON each in
 * return:
 *
 *   publish COUNT AT_ONCE DEADLINE_MS [FIRST]   event numbers FIRST… (default: the next)
 *   state                                       ready, complaint
 *   metric NAME                                 the sum over its labels
 *   close                                       the clean end; then the program ends
 */
#include "adapter/rocketmq/rocketmq.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/parse.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AT_ONCE_MAX = 512, ENDS_MAX = 100000 };

static struct loop *loop;
static struct queue *queue;
static struct loop_io input;
static struct op closing;
static char line[4096];
static size_t line_n;

static struct publish {
    struct queue_publish p;
    struct event e;
    int n;
} publishes[AT_ONCE_MAX];
static struct {
    int first, next, end, under_way, at_once, numbers;
    int64_t deadline_ms, begun_us, cpu_us;
    struct end {
        int n, rc;
    } ends[ENDS_MAX];
    int n_ends;
} batch;

static void publish_next(struct publish *x);

static void tell_batch(void)
{
    printf("{\"us\":%lld,\"cpu_us\":%lld,\"results\":{",
           (long long)(clock_mono_us() - batch.begun_us),
           (long long)(clock_cpu_us() - batch.cpu_us));
    for (int i = 0; i < batch.n_ends; i++)
        printf("%s\"%d\":\"%s\"", i ? "," : "", batch.ends[i].n, err_name(batch.ends[i].rc));
    printf("}}\n");
    fflush(stdout);
}

static void on_published(struct op *op, int rc)
{
    struct publish *x = container_of(op, struct publish, p.op);
    batch.ends[batch.n_ends++] = (struct end){x->n, rc};
    batch.under_way--;
    if (batch.next < batch.end)
        publish_next(x);
    else if (batch.under_way == 0)
        tell_batch();
}

static void publish_next(struct publish *x)
{
    static const char words[] = "00000000-0000-7000-8000-%012d";
    char text[3][UUID_TEXT + 1];
    x->n = batch.next++;
    for (int i = 0; i < 3; i++)
        snprintf(text[i], sizeof text[i], words, 3 * x->n + i);
    memset(&x->p, 0, sizeof x->p);
    x->e = (struct event){.item = {1001, 2001},
                          .user_id = x->n + 1,
                          .order_id = 100000 + x->n,
                          .created_at_us = clock_wall_us(),
                          .schema_version = EVENT_SCHEMA_VERSION,
                          .version = {1, x->n + 1},
                          .traceparent =
                              STR("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
                          .tracestate = STR("")};
    uuid_parse(str_of(text[0]), &x->e.message_id);
    uuid_parse(str_of(text[1]), &x->e.request_id);
    uuid_parse(str_of(text[2]), &x->e.reservation_id);
    x->p.event = &x->e;
    x->p.op.on_done = on_published;
    x->p.op.deadline_us = clock_mono_us() + batch.deadline_ms * 1000;
    batch.under_way++;
    queue->ops->publish(queue, &x->p);
}

static void publish(const char *words)
{
    int count, at_once, first = batch.numbers;
    long long deadline_ms;
    if (batch.under_way) {
        fprintf(stderr, "the last publishes have not ended yet\n");
        exit(2);
    }
    if (sscanf(words, "%d %d %lld %d", &count, &at_once, &deadline_ms, &first) < 3 || count < 1 ||
        count > ENDS_MAX || at_once < 1 || at_once > AT_ONCE_MAX)
        exit(2);
    batch.next = first;
    batch.end = first + count;
    if (batch.end > batch.numbers)
        batch.numbers = batch.end;
    batch.n_ends = 0;
    batch.deadline_ms = deadline_ms;
    batch.begun_us = clock_mono_us();
    batch.cpu_us = clock_cpu_us();
    for (int i = 0; i < at_once && batch.next < batch.end; i++)
        publish_next(&publishes[i]);
}

static void tell_state(void)
{
    const char *complaint = rocketmq_queue_complaint(queue);
    printf("{\"ready\":%s,\"complaint\":", rocketmq_queue_ready(queue) ? "true" : "false");
    if (complaint) {
        putchar('"');
        for (; *complaint; complaint++) {
            if (*complaint == '"' || *complaint == '\\')
                putchar('\\');
            putchar(*complaint < ' ' ? ' ' : *complaint);
        }
        printf("\"}\n");
    } else {
        printf("null}\n");
    }
    fflush(stdout);
}

static void tell_metric(const char *name)
{
    struct strbuf b;
    strbuf_init(&b, 1 << 20);
    metric_render(&b);
    strbuf_add_char(&b, '\0');
    double sum = 0;
    size_t n = strlen(name);
    for (char *l = b.ptr; l; l = strchr(l, '\n'), l = l ? l + 1 : NULL) {
        if (strncmp(l, name, n) == 0 && (l[n] == ' ' || l[n] == '{'))
            sum += atof(strpbrk(l, "} ")[0] == '}' ? strchr(l, '}') + 1 : l + n);
    }
    strbuf_deinit(&b);
    printf("{\"value\":%.0f}\n", sum);
    fflush(stdout);
}

static void on_closed(struct op *op, int rc)
{
    (void)op;
    printf("{\"closed\":\"%s\"}\n", err_name(rc));
    fflush(stdout);
    loop_stop(loop);
}

static void obey(const char *command)
{
    if (strncmp(command, "publish ", 8) == 0) {
        publish(command + 8);
    } else if (strcmp(command, "state") == 0) {
        tell_state();
    } else if (strncmp(command, "metric ", 7) == 0) {
        tell_metric(command + 7);
    } else if (strcmp(command, "close") == 0) {
        closing = (struct op){.on_done = on_closed, .deadline_us = clock_mono_us() + 3000000};
        rocketmq_queue_close(queue, &closing);
    } else {
        exit(2);
    }
}

static void on_input(struct loop_io *io, int what)
{
    (void)what;
    ssize_t n = read(io->fd, line + line_n, sizeof line - 1 - line_n);
    if (n <= 0) { /* whoever drives is gone */
        loop_stop(loop);
        return;
    }
    line_n += (size_t)n;
    line[line_n] = '\0';
    for (char *end; (end = strchr(line, '\n'));) {
        *end = '\0';
        obey(line);
        line_n -= (size_t)(end + 1 - line);
        memmove(line, end + 1, line_n + 1);
    }
}

static void option(struct rocketmq_config *c, const char *word)
{
    const struct {
        const char *name;
        const char **text;
        int64_t *number;
    } known[] = {
        {"endpoints", &c->endpoints, NULL},       {"topic", &c->topic, NULL},
        {"namesrv", &c->namesrv, NULL},           {"access_key", &c->access_key, NULL},
        {"secret_key", &c->secret_key, NULL},     {"ca_file", &c->ca_file, NULL},
        {"heartbeat_us", NULL, &c->heartbeat_us}, {"refresh_us", NULL, &c->refresh_us},
        {"request_us", NULL, &c->request_us},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        size_t n = strlen(known[i].name);
        if (strncmp(word, known[i].name, n) != 0 || word[n] != '=')
            continue;
        if (known[i].text)
            *known[i].text = word + n + 1;
        else
            *known[i].number = atoll(word + n + 1);
        return;
    }
    fprintf(stderr, "what is %s?\n", word);
    exit(2);
}

int main(int argc, char **argv)
{
    struct rocketmq_config c = {0};
    char err[200];
    for (int i = 1; i < argc; i++)
        option(&c, argv[i]);
    c.tls = c.ca_file != NULL;
    log_setup("producer_probe", "1", LOG_DEBUG);
    loop = loop_new();
    queue = rocketmq_queue_new(loop, &c, err, sizeof err);
    if (!queue) {
        fprintf(stderr, "%s\n", err);
        return 1;
    }
    input.on_ready = on_input;
    if (loop_io_add(loop, &input, STDIN_FILENO, LOOP_READ) != 0)
        return 1;
    loop_run(loop);
    loop_io_remove(loop, &input);
    rocketmq_queue_free(queue);
    loop_free(loop);
    return 0;
}

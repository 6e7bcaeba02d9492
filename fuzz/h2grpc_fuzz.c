/* A server's bytes, without sockets: whatever they are, each call ends exactly once, and they read
 * the same whole, byte by byte and cut. Then once more as it really goes: with frames of ours in
 * between, retries, and callers who cancel and give up from inside their callbacks. */
#include "adapter/h2grpc/internal.h"

#include "base/log.h"
#include <stdio.h>
#include <stdlib.h>

enum { CALLS = 3, MESSAGE_MAX = 300, STORY = 2048 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One call, and what became of it. */
struct told {
    struct h2grpc_call call;
    int ends;
    bool wild; /* does things from inside its callbacks */
    size_t len;
    char text[STORY];
};

static void tell(struct told *t, const void *bytes, size_t n)
{
    if (n > sizeof t->text - t->len)
        n = sizeof t->text - t->len;
    if (n)
        memcpy(t->text + t->len, bytes, n);
    t->len += n;
}

static void on_message(struct h2grpc_call *c, struct str message)
{
    struct told *t = container_of(c, struct told, call);
    if (t->ends || message.len > MESSAGE_MAX)
        abort();
    tell(t, &message.len, sizeof message.len);
    tell(t, message.ptr, message.len);
    if (!t->wild || message.len == 0)
        return;
    if (message.ptr[0] == 'c')
        h2grpc_cancel(c);
    else if (message.ptr[0] == 'r')
        h2grpc_reconnect(c->channel, "the server says so");
    else if (message.ptr[0] == 'e')
        h2grpc_close_send(c);
    else
        h2grpc_write(c, message);
}

static void on_end(struct h2grpc_call *c, const struct h2grpc_end *end)
{
    struct told *t = container_of(c, struct told, call);
    if (t->ends++ || end->rc > 0 || (end->rc == 0 && (!end->from_server || end->status)))
        abort();
    tell(t, &end->rc, sizeof end->rc);
    tell(t, &end->status, sizeof end->status);
    tell(t, end->message.ptr, end->message.len);
}

/* A link without a socket. */
static struct h2_link *link_new(struct h2grpc *ch)
{
    struct h2_link *k = calloc(1, sizeof *k);
    if (!k)
        abort();
    k->channel = ch;
    k->fd = -1;
    k->phase = LINK_SETTINGS;
    list_init(&k->streams);
    list_push_back(&ch->links, &k->node);
    strbuf_init(&k->out, OUT_MAX);
    ch->current = k;
    if (h2_session_open(k))
        abort();
    return k;
}

static void send_all(struct h2_link *k)
{
    h2_channel_submit(k->channel, k);
    h2_session_pump(k);
    k->taken += k->out.len - k->out_at;
    strbuf_clear(&k->out);
    k->out_at = 0;
    h2_stream_reap(k->channel);
}

/* False: nghttp2 gave the connection up at once. It does that also for CONTINUATION frames in too
 * many pieces, so that then the cut matters. */
static bool run(struct loop *l, struct told *told, bool wild, const uint8_t *data, size_t size,
                size_t step)
{
    char err[64];
    struct h2grpc_config config = {.target = "fuzz:1", .max_message = MESSAGE_MAX};
    struct h2grpc *ch = h2grpc_new(l, &config, err, sizeof err);
    if (!ch)
        abort();
    struct h2_link *k = link_new(ch);
    for (int i = 0; i < CALLS; i++) {
        told[i] = (struct told){.wild = wild,
                                .call = {.path = "/fuzz.Service/Method",
                                         .request = STR("request"),
                                         .streaming = i == 2,
                                         .deadline_us = INT64_MAX,
                                         .on_message = on_message,
                                         .on_end = on_end}};
        h2grpc_start(ch, &told[i].call);
    }
    static const unsigned char settings[9] = {0, 0, 0, 4};
    h2_session_feed(k, settings, sizeof settings);
    send_all(k);
    ch->closing = !wild; /* no retries: what they meet depends on when they are sent */
    for (size_t at = 0; at < size && !k->doomed;) {
        size_t take = size - at < step ? size - at : step;
        unsigned char *own = malloc(take); /* exactly as large: reading behind it is seen */
        memcpy(own, data + at, take);
        ch->busy++;
        h2_session_feed(k, own, take);
        ch->busy--;
        free(own);
        at += take;
        h2_stream_reap(ch);
        if (wild)
            send_all(k);
    }
    bool through = !k->doomed;
    h2grpc_free(ch);
    for (int i = 0; i < CALLS; i++) {
        if (told[i].ends != 1)
            abort();
    }
    return through;
}

static void same(const struct told *a, const struct told *b)
{
    for (int i = 0; i < CALLS; i++) {
        if (a[i].len != b[i].len || memcmp(a[i].text, b[i].text, a[i].len) != 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct loop *l;
    static struct told whole[CALLS], bytewise[CALLS], cut[CALLS];
    if (!l) {
        log_setup("fuzz", "fuzz", LOG_ERROR);
        l = loop_new();
    }
    size_t step = size ? data[size - 1] + 1u : 1;
    bool through = run(l, whole, false, data, size, SIZE_MAX);
    if (run(l, bytewise, false, data, size, 1) && through)
        same(whole, bytewise);
    if (run(l, cut, false, data, size, step) && through)
        same(whole, cut);
    run(l, cut, true, data, size, step);
    return 0;
}

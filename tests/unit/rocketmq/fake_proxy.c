#include "fake_proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- calls --- */
static struct fake_call *call_at(struct fake_conn *c, int32_t id)
{
    for (int i = 0; i < FAKE_CALLS; i++) {
        if (c->calls[i].conn && c->calls[i].id == id)
            return &c->calls[i];
    }
    return NULL;
}

static struct fake_call *call_new(struct fake_conn *c, int32_t id)
{
    for (int i = 0; i < FAKE_CALLS; i++) {
        struct fake_call *x = &c->calls[i];
        if (x->conn)
            continue;
        memset(x, 0, sizeof *x);
        x->conn = c;
        x->id = id;
        x->method = RMQ_METHODS;
        strbuf_init(&x->in, 8 << 20);
        strbuf_init(&x->out, 8 << 20);
        return x;
    }
    fail_msg("more calls than the fake proxy has room for");
    return NULL;
}

static void call_free(struct fake_call *x)
{
    if (x->method == RMQ_SEND)
        x->conn->proxy->sends_at_once--;
    strbuf_deinit(&x->in);
    strbuf_deinit(&x->out);
    x->conn = NULL;
}

static void later(struct fake_conn *c)
{
    loop_defer(c->proxy->loop, &c->task);
}

/* --- what it says --- */
static ssize_t read_out(nghttp2_session *session, int32_t id, uint8_t *buf, size_t cap,
                        uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct fake_call *x = source->ptr;
    (void)arg;
    size_t n = x->out.len < cap ? x->out.len : cap;
    if (n) {
        memcpy(buf, x->out.ptr, n);
        memmove(x->out.ptr, x->out.ptr + n, x->out.len - n);
        x->out.len -= n;
    }
    if (x->out.len == 0 && x->ending) {
        char status[16];
        snprintf(status, sizeof status, "%d", x->status);
        nghttp2_nv nv[] = {
            {(uint8_t *)(uintptr_t) "grpc-status", (uint8_t *)status, 11, strlen(status), 0},
            {(uint8_t *)(uintptr_t) "grpc-message", (uint8_t *)(uintptr_t)x->text, 12,
             strlen(x->text), 0}};
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        nghttp2_submit_trailer(session, id, nv, 2);
        return (ssize_t)n;
    }
    if (n == 0) {
        x->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)n;
}

static void respond(struct fake_call *x)
{
    if (!x->responded) {
        nghttp2_nv nv[] = {
            {(uint8_t *)(uintptr_t) ":status", (uint8_t *)(uintptr_t) "200", 7, 3, 0},
            {(uint8_t *)(uintptr_t) "content-type", (uint8_t *)(uintptr_t) "application/grpc", 12,
             16, 0}};
        nghttp2_data_provider source = {.source.ptr = x, .read_callback = read_out};
        x->responded = true;
        nghttp2_submit_response(x->conn->session, x->id, nv, 2, &source);
    } else if (x->deferred) {
        x->deferred = false;
        nghttp2_session_resume_data(x->conn->session, x->id);
    }
    later(x->conn);
}

static void say_bytes(struct fake_call *x, const void *bytes, size_t n)
{
    unsigned char head[5] = {0, (unsigned char)(n >> 24), (unsigned char)(n >> 16),
                             (unsigned char)(n >> 8), (unsigned char)n};
    strbuf_add(&x->out, head, 5);
    strbuf_add(&x->out, bytes, n);
    respond(x);
}

void fake_say(struct fake_call *x, const ProtobufCMessage *m)
{
    size_t n = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = malloc(n + 1);
    assert_non_null(bytes);
    protobuf_c_message_pack(m, bytes);
    say_bytes(x, bytes, n);
    free(bytes);
}

void fake_end(struct fake_call *x, int grpc_status, const char *text)
{
    x->ending = true;
    x->status = grpc_status;
    x->text = text;
    respond(x);
}

void fake_reset(struct fake_call *x, uint32_t code)
{
    nghttp2_submit_rst_stream(x->conn->session, 0, x->id, code);
    later(x->conn);
}

void fake_say_code(struct fake_call *x, int code, const char *text)
{
    Rmq__Status status = RMQ__STATUS__INIT;
    status.has_code = true;
    status.code = code;
    status.message = (char *)(uintptr_t)text;
    if (x->method == RMQ_RECEIVE) {
        Rmq__ReceiveMessageResponse r = RMQ__RECEIVE_MESSAGE_RESPONSE__INIT;
        r.content_case = RMQ__RECEIVE_MESSAGE_RESPONSE__CONTENT_STATUS;
        r.status = &status;
        fake_say(x, &r.base);
    } else {
        /* Field 1 of all the others. */
        Rmq__HeartbeatResponse r = RMQ__HEARTBEAT_RESPONSE__INIT;
        r.status = &status;
        fake_say(x, &r.base);
    }
    fake_end(x, 0, "");
}

/* --- what it does --- */
static int client_at(const struct fake_proxy *p, const char *client_id)
{
    for (int i = 0; i < p->n_clients; i++) {
        if (strcmp(p->clients[i], client_id) == 0)
            return i;
    }
    return -1;
}

bool fake_knows(const struct fake_proxy *p, const char *client_id)
{
    return client_at(p, client_id) >= 0;
}

void fake_forget(struct fake_proxy *p)
{
    p->n_clients = 0;
}

static void tell_route(struct fake_call *x, struct str request)
{
    struct fake_proxy *p = x->conn->proxy;
    Rmq__QueryRouteRequest *asked =
        rmq__query_route_request__unpack(NULL, request.len, (const uint8_t *)request.ptr);
    assert_non_null(asked);
    bool known = strcmp(asked->topic->name, p->topic) == 0;
    assert_true(asked->endpoints->n_addresses > 0);
    rmq__query_route_request__free_unpacked(asked, NULL);
    if (!known) {
        fake_say_code(x, 40402, "no topic route info");
        return;
    }
    Rmq__QueryRouteResponse r = RMQ__QUERY_ROUTE_RESPONSE__INIT;
    Rmq__Status status = RMQ__STATUS__INIT;
    Rmq__MessageQueue queues[2 * FAKE_BROKERS], *list[2 * FAKE_BROKERS];
    Rmq__Broker brokers[FAKE_BROKERS];
    Rmq__Endpoints endpoints[FAKE_BROKERS];
    Rmq__Address addresses[FAKE_BROKERS], *address_list[FAKE_BROKERS];
    status.has_code = true;
    status.code = 20000;
    r.status = &status;
    r.message_queues = list;
    for (int i = 0; i < p->n_brokers; i++) {
        const struct fake_proxy *at = p->brokers[i].at ? p->brokers[i].at : p;
        rmq__address__init(&addresses[i]);
        addresses[i].host = (char *)(uintptr_t) "127.0.0.1";
        addresses[i].has_port = true;
        addresses[i].port = p->told_port ? p->told_port : at->port;
        address_list[i] = &addresses[i];
        rmq__endpoints__init(&endpoints[i]);
        endpoints[i].n_addresses = 1;
        endpoints[i].addresses = &address_list[i];
        rmq__broker__init(&brokers[i]);
        brokers[i].name = (char *)(uintptr_t)p->brokers[i].name;
        brokers[i].has_id = true;
        brokers[i].endpoints = &endpoints[i];
        for (int q = 0; q < 2; q++) {
            Rmq__MessageQueue *queue = &queues[2 * i + q];
            rmq__message_queue__init(queue);
            queue->has_id = queue->has_permission = true;
            queue->id = q;
            queue->permission = RMQ__PERMISSION__READ_WRITE;
            queue->broker = &brokers[i];
            list[r.n_message_queues++] = queue;
        }
    }
    fake_say(x, &r.base);
    fake_end(x, 0, "");
}

static void store(struct fake_proxy *p, const Rmq__Message *m)
{
    assert_true(p->n_stored < FAKE_STORED);
    struct fake_message *s = &p->stored[p->n_stored++];
    const Rmq__SystemProperties *sys = m->system_properties;
    memset(s, 0, sizeof *s);
    str_copy(s->id, sizeof s->id, str_of(sys->message_id));
    str_copy(s->tag, sizeof s->tag, str_of(sys->tag));
    str_copy(s->trace, sizeof s->trace, str_of(sys->trace_context));
    s->n_keys = sys->n_keys;
    for (size_t i = 0; i < sys->n_keys && i < 4; i++)
        str_copy(s->keys[i], sizeof s->keys[i], str_of(sys->keys[i]));
    for (size_t i = 0; i < m->n_user_properties; i++) {
        if (strcmp(m->user_properties[i]->key, "sk_origin_topic") == 0)
            str_copy(s->origin, sizeof s->origin, str_of(m->user_properties[i]->value));
    }
    assert_true(m->body.len <= sizeof s->body);
    memcpy(s->body, m->body.data, m->body.len);
    s->body_n = m->body.len;
    s->proxy = p->port;
    assert_int_equal(sys->message_type, RMQ__MESSAGE_TYPE__NORMAL);
    assert_int_equal(sys->body_encoding, RMQ__ENCODING__IDENTITY);
    assert_false(sys->has_queue_id);
    assert_non_null(sys->born_timestamp);
}

static void take_send(struct fake_call *x, struct str request, const struct fake_fault *f)
{
    struct fake_proxy *p = x->conn->proxy;
    Rmq__SendMessageRequest *m =
        rmq__send_message_request__unpack(NULL, request.len, (const uint8_t *)request.ptr);
    assert_non_null(m);
    p->last_together = (int)m->n_messages;
    for (size_t i = 0; i < m->n_messages; i++)
        store(p, m->messages[i]);
    Rmq__SendMessageResponse r = RMQ__SEND_MESSAGE_RESPONSE__INIT;
    Rmq__Status ok = RMQ__STATUS__INIT, own = RMQ__STATUS__INIT;
    Rmq__SendResultEntry e = RMQ__SEND_RESULT_ENTRY__INIT, *entries[2] = {&e, &e};
    ok.has_code = own.has_code = true;
    ok.code = 20000;
    own.code = f->kind == FAULT_ENTRY ? f->code : 20000;
    e.status = &own;
    /* For several there is one receipt, with an id that is none of theirs. */
    e.message_id = f->kind == FAULT_ID || m->n_messages > 1 ? (char *)(uintptr_t) "0100"
                                                            : p->stored[p->n_stored - 1].id;
    r.status = &ok;
    r.entries = entries;
    r.n_entries = f->kind == FAULT_ZERO ? 0 : f->kind == FAULT_TWO ? 2 : 1;
    rmq__send_message_request__free_unpacked(m, NULL);
    if (f->kind == FAULT_LOST || f->kind == FAULT_CUT)
        return;
    fake_say(x, &r.base);
    if (f->kind == FAULT_TWICE) {
        ok.code = 40007;
        r.n_entries = 0;
        fake_say(x, &r.base);
    }
    fake_end(x, 0, "");
}

static void take_settings(struct fake_call *x, const Rmq__Settings *s)
{
    struct fake_proxy *p = x->conn->proxy;
    p->settings++;
    p->last_kind = s->client_type;
    assert_true(s->access_point && s->access_point->n_addresses > 0);
    assert_null(s->backoff_policy);
    if (s->pub_sub_case == RMQ__SETTINGS__PUB_SUB_PUBLISHING)
        assert_int_equal(s->publishing->n_topics, 1);
    if (!fake_knows(p, x->client_id)) {
        assert_true(p->n_clients < FAKE_CLIENTS);
        str_copy(p->clients[p->n_clients++], 96, str_of(x->client_id));
    }
    Rmq__TelemetryCommand out = RMQ__TELEMETRY_COMMAND__INIT;
    Rmq__Status ok = RMQ__STATUS__INIT;
    Rmq__Settings echo = *s;
    Rmq__RetryPolicy policy = RMQ__RETRY_POLICY__INIT;
    ok.has_code = true;
    ok.code = 20000;
    policy.has_max_attempts = true;
    policy.max_attempts = p->max_attempts ? p->max_attempts : 17;
    echo.backoff_policy = &policy;
    out.status = &ok;
    out.command_case = RMQ__TELEMETRY_COMMAND__COMMAND_SETTINGS;
    out.settings = &echo;
    fake_say(x, &out.base);
}

static void take_telemetry(struct fake_call *x, struct str request)
{
    struct fake_proxy *p = x->conn->proxy;
    Rmq__TelemetryCommand *t =
        rmq__telemetry_command__unpack(NULL, request.len, (const uint8_t *)request.ptr);
    assert_non_null(t);
    if (t->command_case == RMQ__TELEMETRY_COMMAND__COMMAND_SETTINGS)
        take_settings(x, t->settings);
    else if (t->command_case == RMQ__TELEMETRY_COMMAND__COMMAND_THREAD_STACK_TRACE)
        snprintf(p->traces, sizeof p->traces, "%s %s", t->thread_stack_trace->nonce,
                 t->thread_stack_trace->thread_stack_trace);
    else if (t->command_case == RMQ__TELEMETRY_COMMAND__COMMAND_VERIFY_MESSAGE_RESULT)
        p->verified = t->status->code;
    rmq__telemetry_command__free_unpacked(t, NULL);
}

static void good_answer(struct fake_call *x, struct str request)
{
    struct fake_proxy *p = x->conn->proxy;
    static const struct fake_fault none;
    switch (x->method) {
    case RMQ_QUERY_ROUTE:
        tell_route(x, request);
        break;
    case RMQ_HEARTBEAT:
        fake_say_code(x, fake_knows(p, x->client_id) ? 20000 : 40015, "");
        break;
    case RMQ_SEND:
        take_send(x, request, &none);
        break;
    case RMQ_TELEMETRY:
        take_telemetry(x, request);
        break;
    case RMQ_NOTIFY_TERMINATION: {
        int at = client_at(p, x->client_id);
        if (at >= 0)
            memmove(p->clients[at], p->clients[--p->n_clients], 96);
        fake_say_code(x, 20000, "");
        break;
    }
    default:
        fake_end(x, 12, "UNIMPLEMENTED");
        break;
    }
}

static void faulty_answer(struct fake_call *x, struct str request, const struct fake_fault *f)
{
    const char *words = f->text ? f->text : "as the test wants it";
    switch (f->kind) {
    case FAULT_CODE:
        fake_say_code(x, f->code, words);
        break;
    case FAULT_GRPC:
        fake_end(x, f->code, words);
        break;
    case FAULT_SILENT:
        break;
    case FAULT_RESET:
        fake_reset(x, (uint32_t)f->code);
        break;
    case FAULT_JUNK:
        say_bytes(x, "\x0a\xff\xff\xff\xff\x7f", 6);
        fake_end(x, 0, "");
        break;
    default:
        if (x->method == RMQ_SEND)
            take_send(x, request, f);
        if (f->kind == FAULT_CUT) {
            x->conn->cut = true;
            later(x->conn);
        }
        break;
    }
}

static void take_message(struct fake_call *x, struct str request)
{
    struct fake_proxy *p = x->conn->proxy;
    str_copy(p->last_authorization, sizeof p->last_authorization, str_of(x->authorization));
    str_copy(p->last_language, sizeof p->last_language, str_of(x->language));
    str_copy(p->last_date, sizeof p->last_date, str_of(x->date));
    str_copy(p->last_timeout, sizeof p->last_timeout, str_of(x->timeout));
    struct fake_fault *f = &p->faults[x->method];
    if (p->on_call && p->on_call(x, request))
        return;
    if (f->n > 0) {
        f->n--;
        struct fake_fault now = *f;
        faulty_answer(x, request, &now);
    } else {
        good_answer(x, request);
    }
}

static void take_bytes(struct fake_call *x)
{
    while (x->conn && x->in.len >= 5) {
        const unsigned char *b = (const unsigned char *)x->in.ptr;
        size_t n = (size_t)b[1] << 24 | (size_t)b[2] << 16 | (size_t)b[3] << 8 | b[4];
        if (x->in.len < n + 5)
            return;
        take_message(x, (struct str){x->in.ptr + 5, n});
        memmove(x->in.ptr, x->in.ptr + 5 + n, x->in.len - 5 - n);
        x->in.len -= 5 + n;
    }
}

/* --- HTTP/2 --- */
static int on_begin(nghttp2_session *s, const nghttp2_frame *frame, void *arg)
{
    (void)s;
    if (frame->hd.type == NGHTTP2_HEADERS)
        call_new(arg, frame->hd.stream_id);
    return 0;
}

static int on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_n, const uint8_t *value, size_t value_n, uint8_t flags, void *arg)
{
    (void)s, (void)flags;
    struct fake_conn *c = arg;
    struct fake_call *x = call_at(c, frame->hd.stream_id);
    struct str n = {(const char *)name, name_n}, v = {(const char *)value, value_n};
    if (str_eq(n, STR(":path"))) {
        for (int m = 0; m < RMQ_METHODS; m++) {
            if (str_eq(v, str_of(rmq_method_info((enum rmq_method)m)->path)))
                x->method = (enum rmq_method)m;
        }
        assert_true(x->method < RMQ_METHODS);
        struct fake_proxy *p = c->proxy;
        p->calls[x->method]++;
        if (x->method == RMQ_SEND && ++p->sends_at_once > p->most_sends)
            p->most_sends = p->sends_at_once;
    }
    if (str_eq(n, STR("x-mq-client-id")))
        str_copy(x->client_id, sizeof x->client_id, v);
    if (str_eq(n, STR("x-mq-language")))
        str_copy(x->language, sizeof x->language, v);
    if (str_eq(n, STR("x-mq-date-time")))
        str_copy(x->date, sizeof x->date, v);
    if (str_eq(n, STR("authorization")))
        str_copy(x->authorization, sizeof x->authorization, v);
    if (str_eq(n, STR("grpc-timeout")))
        str_copy(x->timeout, sizeof x->timeout, v);
    return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *bytes, size_t n,
                   void *arg)
{
    (void)s, (void)flags;
    struct fake_call *x = call_at(arg, id);
    if (x)
        strbuf_add(&x->in, bytes, n);
    return 0;
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *frame, void *arg)
{
    (void)s;
    struct fake_call *x = call_at(arg, frame->hd.stream_id);
    if (!x || (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS))
        return 0;
    if (frame->hd.type == NGHTTP2_DATA)
        take_bytes(x);
    if (x->conn && frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
        x->half_closed = true;
        if (x->method == RMQ_TELEMETRY && !x->ending && !x->conn->proxy->keeps_streams)
            fake_end(x, 0, "");
    }
    return 0;
}

static int on_closed(nghttp2_session *s, int32_t id, uint32_t code, void *arg)
{
    (void)s, (void)code;
    struct fake_call *x = call_at(arg, id);
    if (x)
        call_free(x);
    return 0;
}

static void conn_close(struct fake_conn *c)
{
    if (!c->open)
        return;
    c->open = false;
    for (int i = 0; i < FAKE_CALLS; i++) {
        if (c->calls[i].conn)
            call_free(&c->calls[i]);
    }
    loop_defer_cancel(&c->task);
    int fd = c->io.fd;
    loop_io_remove(c->proxy->loop, &c->io);
    close(fd);
    nghttp2_session_del(c->session);
}

static void flush(struct fake_conn *c)
{
    const uint8_t *bytes;
    ssize_t n;
    while (c->open && !c->cut && (n = nghttp2_session_mem_send(c->session, &bytes)) > 0) {
        for (ssize_t at = 0; at < n && c->open;) {
            ssize_t k = send(c->io.fd, bytes + at, (size_t)(n - at), MSG_NOSIGNAL);
            if (k < 0 && errno == EAGAIN)
                fail_msg("the fake proxy says more than the socket holds");
            if (k <= 0)
                conn_close(c);
            at += k;
        }
    }
    if (c->cut)
        conn_close(c);
}

static void on_task(struct loop_task *t)
{
    flush(container_of(t, struct fake_conn, task));
}

static void on_ready(struct loop_io *io, int what)
{
    struct fake_conn *c = container_of(io, struct fake_conn, io);
    char buf[65536];
    (void)what;
    ssize_t n = recv(io->fd, buf, sizeof buf, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n > 0 && c->proxy->deaf)
        return;
    if (n <= 0 || nghttp2_session_mem_recv(c->session, (uint8_t *)buf, (size_t)n) < 0)
        conn_close(c);
    else
        flush(c);
}

static void on_accept(struct loop_io *io, int what)
{
    (void)what;
    struct fake_proxy *p = container_of(io, struct fake_proxy, io);
    int fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    struct fake_conn *c = &p->conns[p->accepted++ % FAKE_CONNS];
    assert_false(c->open);
    memset(c, 0, sizeof *c);
    c->proxy = p;
    c->open = true;
    c->task.on_run = on_task;
    list_init(&c->task.link);
    c->io.on_ready = on_ready;
    nghttp2_session_callbacks *cb;
    nghttp2_session_callbacks_new(&cb);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_closed);
    assert_int_equal(nghttp2_session_server_new(&c->session, cb, c), 0);
    nghttp2_session_callbacks_del(cb);
    nghttp2_submit_settings(c->session, 0, NULL, 0);
    assert_int_equal(loop_io_add(p->loop, &c->io, fd, LOOP_READ), 0);
    flush(c);
}

/* --- what the test does --- */
void fake_fault(struct fake_proxy *p, enum rmq_method m, enum fake_fault_kind kind, int code, int n)
{
    p->faults[m] = (struct fake_fault){.kind = kind, .code = code, .n = n};
}

struct fake_call *fake_find(struct fake_proxy *p, enum rmq_method m)
{
    for (int i = 0; i < FAKE_CONNS; i++) {
        for (int k = 0; k < FAKE_CALLS && p->conns[i].open; k++) {
            if (p->conns[i].calls[k].conn && p->conns[i].calls[k].method == m)
                return &p->conns[i].calls[k];
        }
    }
    return NULL;
}

int fake_under_way(const struct fake_proxy *p, enum rmq_method m)
{
    int n = 0;
    for (int i = 0; i < FAKE_CONNS; i++) {
        for (int k = 0; k < FAKE_CALLS && p->conns[i].open; k++)
            n += p->conns[i].calls[k].conn && p->conns[i].calls[k].method == m;
    }
    return n;
}

void fake_goaway(struct fake_proxy *p)
{
    for (int i = 0; i < FAKE_CONNS; i++) {
        if (!p->conns[i].open)
            continue;
        nghttp2_submit_goaway(p->conns[i].session, 0,
                              nghttp2_session_get_last_proc_stream_id(p->conns[i].session), 0, NULL,
                              0);
        later(&p->conns[i]);
    }
}

void fake_cut(struct fake_proxy *p)
{
    for (int i = 0; i < FAKE_CONNS; i++)
        conn_close(&p->conns[i]);
}

static void listen_on(struct fake_proxy *p, int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    assert_int_equal(listen(fd, 64), 0);
    p->port = ntohs(a.sin_port);
    snprintf(p->target, sizeof p->target, "127.0.0.1:%d", p->port);
    p->io = (struct loop_io){.on_ready = on_accept};
    assert_int_equal(loop_io_add(p->loop, &p->io, fd, LOOP_READ), 0);
}

void fake_proxy_start(struct fake_proxy *p, struct loop *l)
{
    memset(p, 0, sizeof *p);
    p->loop = l;
    p->topic = "T";
    p->brokers[0].name = "b0";
    p->n_brokers = 1;
    listen_on(p, 0);
}

void fake_proxy_stop(struct fake_proxy *p)
{
    fake_cut(p);
    int fd = p->io.fd;
    if (!p->io.impl)
        return;
    loop_io_remove(p->loop, &p->io);
    close(fd);
}

void fake_proxy_again(struct fake_proxy *p)
{
    fake_forget(p);
    listen_on(p, p->port);
}

/* A RocketMQ proxy that does what the test says, on the test's own loop. Unless told otherwise it
 * is a good one of LOCAL kind with one broker: it knows the topic, keeps settings by client id,
 * takes heartbeats, stores what is sent. What it does not know (receive, ack, …) is the test's:
 * on_call.
 */
#pragma once

#include "h2grpc_test.h"

#include "adapter/rocketmq/method.h"
#include "base/str.h"
#include "rocketmq.pb-c.h"
#include <nghttp2/nghttp2.h>

enum { FAKE_CONNS = 32, FAKE_CALLS = 128, FAKE_STORED = 512, FAKE_CLIENTS = 32, FAKE_BROKERS = 4 };

struct fake_call {
    struct fake_conn *conn; /* NULL: free */
    int32_t id;
    enum rmq_method method;
    char client_id[96], authorization[256], language[16], date[32], timeout[16];
    struct strbuf in, out;
    bool half_closed, responded, ending; /* the client's side; headers; our side after `out` */
    bool deferred;                       /* nghttp2 waits for more of us */
    int status;
    const char *text;
};

struct fake_conn {
    struct fake_proxy *proxy;
    struct loop_io io;
    bool open, cut; /* cut: closed as soon as this turn's callbacks are over */
    nghttp2_session *session;
    struct loop_task task;
    struct fake_call calls[FAKE_CALLS];
};

enum fake_fault_kind {
    FAULT_NONE,
    FAULT_CODE,   /* a status of this code, no entries */
    FAULT_GRPC,   /* a gRPC status */
    FAULT_SILENT, /* no answer; nothing happens */
    FAULT_LOST,   /* it happens, and no answer */
    FAULT_CUT,    /* it happens, and the connection is lost */
    FAULT_RESET,  /* RST_STREAM with this code */
    FAULT_TWO,    /* of a send: two receipts */
    FAULT_TWICE,  /* of a send: stored, it says; then that it refused */
    FAULT_ZERO,   /* none */
    FAULT_ENTRY,  /* the entry's status is this code, the answer's is OK */
    FAULT_ID,     /* the receipt names another message */
    FAULT_JUNK,   /* an answer that cannot be decoded */
};

struct fake_message {
    char id[96], tag[64], keys[4][96], body[4096], trace[128], origin[64];
    size_t n_keys, body_n;
    int proxy; /* which port took it */
};

struct fake_proxy {
    struct loop *loop;
    struct loop_io io;
    char target[32];
    int port;
    /* behaviour */
    const char *topic; /* the one it knows */
    struct {
        const char *name;
        const struct fake_proxy *at; /* NULL: itself */
    } brokers[FAKE_BROKERS];
    int n_brokers;
    int told_port;      /* instead of its own: what a LOCAL proxy behind NAT tells */
    int max_attempts;   /* that it tells of groups; 0: 17 */
    bool deaf;          /* reads nothing more: half-open */
    bool keeps_streams; /* does not end what the client ended */
    struct fake_fault {
        enum fake_fault_kind kind;
        int n, code;      /* n: for so many calls */
        const char *text; /* NULL: something */
    } faults[RMQ_METHODS];
    /* True: the call was dealt with. Before faults and defaults. */
    bool (*on_call)(struct fake_call *c, struct str request);
    /* seen */
    int accepted, calls[RMQ_METHODS], sends_at_once, most_sends;
    int last_together; /* messages of the last send */
    struct fake_message stored[FAKE_STORED];
    int n_stored;
    char clients[FAKE_CLIENTS][96]; /* whose settings are known */
    int n_clients, settings;        /* settings: how often any came */
    char last_authorization[256], last_language[16], last_date[32], last_timeout[16];
    Rmq__ClientType last_kind;
    char traces[256]; /* what was answered to print_thread_stack_trace */
    int verified;     /* code answered to verify_message */
    struct fake_conn conns[FAKE_CONNS];
};

void fake_proxy_start(struct fake_proxy *p, struct loop *l); /* zeroes, listens on a free port */
void fake_proxy_stop(struct fake_proxy *p);                  /* and nothing listens */
void fake_proxy_again(struct fake_proxy *p); /* after stop: same port; its settings are forgotten */
void fake_fault(struct fake_proxy *p, enum rmq_method m, enum fake_fault_kind kind, int code,
                int n);
bool fake_knows(const struct fake_proxy *p, const char *client_id);
void fake_forget(struct fake_proxy *p); /* all settings, without a word */
struct fake_call *fake_find(struct fake_proxy *p, enum rmq_method m); /* one under way, or NULL */
int fake_under_way(const struct fake_proxy *p, enum rmq_method m);

void fake_say(struct fake_call *c, const ProtobufCMessage *m);
void fake_end(struct fake_call *c, int grpc_status, const char *text);
void fake_reset(struct fake_call *c, uint32_t code);
/* The usual answer of this method with a status and nothing else; ends the call. */
void fake_say_code(struct fake_call *c, int code, const char *text);
void fake_goaway(struct fake_proxy *p); /* on all connections: NO_ERROR, above what came */
void fake_cut(struct fake_proxy *p);    /* all connections */

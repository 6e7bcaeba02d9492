/* Rule 22. The broker counts every expiry and every nack, and at its own bound moves the message
 * into its dead letter queue, whatever the reason was. So from the eighth delivery on "later" is:
 * publish it again, same id, keys and tag, then ack the old one. What was published and could not
 * be acked comes twice, which changes nothing. The same for what did land in the dead letter queue.
 * It is delivered at once then: once in eight times there is no delay. */
#include "adapter/rocketmq/inner.h"

#include "base/panic.h"
#include <stdlib.h>

struct rmq_again {
    struct rmq_publish publish;
    struct op op;
    struct rmq_step *step;
    struct loop_task reap;
    struct rmq_message message;
    char body[EVENT_MAX_BYTES];
};

bool rmq_again_due(const struct rmq_step *s)
{
    const struct rmq_slot *slot = s->slot;
    return s->work->b && s->work->kind == RMQ_WORK_LATER && !slot->altered &&
           slot->m.body.len > 0 && (slot->m.dead || slot->m.deliveries >= QUEUE_REPUBLISH_FROM);
}

/* The same body, with one republish more; one that we cannot read stays as it is. */
static struct str body_again(struct rmq_again *x)
{
    struct str body = x->step->slot->m.body;
    struct event e;
    const char *why;
    struct strbuf b;
    if (event_decode(body, &e, &why) || e.retry_count == INT32_MAX)
        return body;
    e.retry_count++;
    strbuf_init_fixed(&b, x->body, sizeof x->body);
    event_encode(&e, false, &b);
    return b.failed ? body : strbuf_str(&b);
}

static void on_published(struct op *op, int rc)
{
    struct rmq_again *x = container_of(op, struct rmq_again, op);
    struct rmq_step *s = x->step;
    struct rmq_consumer *c = s->work->c;
    if (rc == 0) {
        metric_add(c->m.again, 1);
        rmq_ack_add(s);
    } else {
        rmq_step_end(s, rc, false); /* it comes again when its lease ends */
    }
}

static void on_reap(struct loop_task *t)
{
    free(container_of(t, struct rmq_again, reap));
}

void rmq_again_start(struct rmq_step *s)
{
    struct rmq_again *x = calloc(1, sizeof *x);
    if (!x)
        panic("rocketmq: no memory to publish a message again");
    x->step = s;
    x->reap.on_run = on_reap;
    list_init(&x->reap.link);
    x->message = s->slot->again;
    x->message.body = body_again(x);
    x->op = (struct op){on_published, s->work->deadline_us};
    x->publish.op = &x->op;
    x->publish.message = &x->message;
    s->again = x;
    s->sent = true;
    rmq_publish_start(s->work->c->mq, &x->publish);
}

/* The step may end inside the publish's own callback. */
void rmq_again_free(struct rmq_step *s)
{
    if (s->again)
        loop_defer(s->work->c->mq->loop, &s->again->reap);
    s->again = NULL;
}

#include "base/flow.h"

#include "base/panic.h"
#include <stddef.h>

static const struct flow_state *state_of(const struct flow *f)
{
    return &f->kind->state[f->state];
}

static void check_kind(const struct flow_kind *kind, int state)
{
    if (kind->states < 1 || kind->states > 32)
        panic("flow %s: %d states, but a set of moves holds 32", kind->name, kind->states);
    if (state < 0 || state >= kind->states)
        panic("flow %s: no state %d", kind->name, state);
}

/* A loop, not a recursion: however many states follow one another at once, the stack stays flat. */
static void run(struct flow *f)
{
    if (f->running)
        panic("flow %s: resumed inside its own step %s", f->kind->name, state_of(f)->name);
    f->running = true;
    for (;;) {
        const struct flow_state *st = state_of(f);
        int before = f->state;
        enum flow_result result = st->step ? st->step(f) : FLOW_DONE;
        if (result == FLOW_WAIT) {
            f->running = false;
            return;
        }
        if (result == FLOW_DONE)
            break;
        if (f->state == before && !(st->moves & FLOW_TO(before)))
            panic("flow %s: step %s said NEXT and went nowhere", f->kind->name, st->name);
    }
    if (state_of(f)->step && state_of(f)->moves)
        panic("flow %s: ended in state %s, which is not final", f->kind->name, state_of(f)->name);
    f->running = false;
    if (f->kind->on_end)
        f->kind->on_end(f); /* may have freed f */
}

void flow_start(struct flow *f, const struct flow_kind *kind, int state)
{
    check_kind(kind, state);
    *f = (struct flow){.kind = kind, .state = state};
    run(f);
}

void flow_goto(struct flow *f, int state)
{
    const struct flow_kind *kind = f->kind;
    int from = f->state;
    check_kind(kind, state);
    if (!(state_of(f)->moves & FLOW_TO(state)))
        panic("flow %s: %s to %s is no legal move", kind->name, state_of(f)->name,
              kind->state[state].name);
    f->state = state;
    if (kind->on_move)
        kind->on_move(f, from, state);
}

void flow_resume(struct flow *f)
{
    run(f);
}

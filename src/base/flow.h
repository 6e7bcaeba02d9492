/* A flow: one struct, one enum of states, one table of legal moves, one step per state.
 *
 * A step does one thing and returns NEXT (it moved on: run the new state's step), WAIT (an
 * operation is under way; its completion calls flow_resume) or DONE. Steps never call one another.
 * flow_goto asserts that the move is in the table. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum flow_result { FLOW_NEXT, FLOW_WAIT, FLOW_DONE };

struct flow;

struct flow_state {
    const char *name;
    uint32_t moves;                           /* bit set of the states that may follow */
    enum flow_result (*step)(struct flow *f); /* NULL in a final state */
};

struct flow_kind {
    const char *name;
    int states;
    const struct flow_state *state; /* [states] */
    /* Called with the state that is final, once; may free the struct. */
    void (*on_end)(struct flow *f);
    /* For tests and logs: every move, or NULL. */
    void (*on_move)(struct flow *f, int from, int to);
};

struct flow {
    const struct flow_kind *kind;
    int state;
    bool running;
};

#define FLOW_TO(state) (UINT32_C(1) << (state))

/* Runs until WAIT or the end. */
void flow_start(struct flow *f, const struct flow_kind *kind, int state);
/* Inside a step or a completion. */
void flow_goto(struct flow *f, int state);
/* In an operation's on_done; never inside a step. */
void flow_resume(struct flow *f);

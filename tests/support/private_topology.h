/* A private_redis that is more than one server: a master that a Sentinel names, or one of the three
 * masters of a cluster. Its url is what a client is given; private_redis_command goes to the server
 * that has the key. */
#pragma once

#include "support/private_redis.h"

enum private_topology { TOPOLOGY_ALONE, TOPOLOGY_SENTINEL, TOPOLOGY_CLUSTER };

/* As private_redis_start. All of it ends with the program, in an orderly way too. Once a program.
 */
void private_topology_start(struct private_redis *r, enum private_topology t,
                            const char *const *more);

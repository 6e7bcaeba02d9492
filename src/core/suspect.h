/* Which neighbours a redelivered message may have (rule 23): a message that kills the process each
 * time must not take others with it for ever. Pure. */
#pragma once

#include <stdbool.h>

#define SUSPECT_FROM 4 /* deliveries from which on a message without own failure is a suspect */
#define SUSPECT_DEAD_ALONE 3 /* processes dead alone with it before it is quarantined */

/* How many suspects may run together: 0 = not a suspect, run with the healthy ones; 32, 8, then 1.
 */
int suspect_group(int deliveries);

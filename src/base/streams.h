/* The standard streams. */
#pragma once

/* Whoever was started with one of them closed would get its number for the next file or socket, and
 * write logs and answers into that. Opens those that are closed on /dev/null; ends the process (1)
 * where that fails. First thing in main. */
void streams_hold(void);

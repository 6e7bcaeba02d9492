#include "core/suspect.h"

int suspect_group(int deliveries)
{
    if (deliveries < SUSPECT_FROM)
        return 0;
    if (deliveries == SUSPECT_FROM)
        return 32;
    return deliveries == SUSPECT_FROM + 1 ? 8 : 1;
}

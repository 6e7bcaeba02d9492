#include "app/epoch_judge.h"

const char *epoch_finding_name(enum epoch_finding f)
{
    static const char *const names[EPOCH_FINDINGS] = {
        [EPOCH_GOOD] = "good",
        [EPOCH_UNKNOWN] = "unknown",
        [EPOCH_LOST] = "lost",
        [EPOCH_BEHIND] = "behind",
        [EPOCH_INTERRUPTED] = "interrupted",
        [EPOCH_ROLLED_BACK] = "rolled back",
        [EPOCH_REPORTED] = "reported",
        [EPOCH_ASKED] = "asked",
        [EPOCH_UNFINISHED] = "unfinished",
        [EPOCH_AHEAD] = "ahead",
    };
    return names[f];
}

enum epoch_finding epoch_judge(const struct orders_watched *pg, struct item_version seen,
                               bool reported, int rc, const struct stock_item_info *info)
{
    if (rc < 0)
        return EPOCH_UNKNOWN;
    if (rc == 1)
        return pg->opened || pg->unfinished || pg->asked ? EPOCH_LOST : EPOCH_GOOD;
    if (info->version.epoch != pg->version.epoch)
        return info->version.epoch < pg->version.epoch ? EPOCH_BEHIND : EPOCH_AHEAD;
    if (info->rebuilding)
        return EPOCH_INTERRUPTED;
    if (info->version.seq < pg->version.seq || item_version_cmp(info->version, seen) < 0)
        return EPOCH_ROLLED_BACK;
    if (pg->asked)
        return EPOCH_ASKED;
    if (reported && pg->epoch_age_ms >= EPOCH_REPORT_REST_MS)
        return EPOCH_REPORTED;
    return pg->unfinished ? EPOCH_UNFINISHED : EPOCH_GOOD;
}

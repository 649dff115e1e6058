#include "cli/team.h"

#include <pthread.h>
#include <stdlib.h>

/* All threads wait here until each that can be made is there: work has to know how many. */
typedef struct gathering {
    pthread_mutex_t gate;
    attn_team_work *work;
    void *context;
    int team;
} gathering;

typedef struct member {
    pthread_t id;
    gathering *gathering;
    int number;
} member;

static void *join_in(void *argument) {
    const member *self = argument;
    gathering *all = self->gathering;
    pthread_mutex_lock(&all->gate);
    pthread_mutex_unlock(&all->gate);
    all->work(all->context, self->number, all->team);
    return NULL;
}

static int least_team;

int cli_team_had(void) {
    return least_team;
}

void cli_team(int threads, attn_team_work *work, void *context) {
    gathering all = {.work = work, .context = context, .team = 1};
    member *members = calloc((size_t)threads, sizeof *members);
    pthread_mutex_init(&all.gate, NULL);
    pthread_mutex_lock(&all.gate);
    for (; members && all.team < threads; all.team++) {
        member *next = &members[all.team];
        *next = (member){.gathering = &all, .number = all.team};
        if (pthread_create(&next->id, NULL, join_in, next) != 0)
            break;
    }
    if (all.team < threads && (least_team == 0 || all.team < least_team))
        least_team = all.team;
    pthread_mutex_unlock(&all.gate);
    work(context, 0, all.team);
    for (int i = 1; i < all.team; i++)
        pthread_join(members[i].id, NULL);
    pthread_mutex_destroy(&all.gate);
    free(members);
}

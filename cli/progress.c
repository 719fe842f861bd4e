/* Progress on a terminal. SPDX-License-Identifier: Apache-2.0
 *
 * The library has no callbacks, so a thread watches the clock: a call that takes long is seen to be
 * alive without being touched.
 */
#include "cli/cli.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

static struct {
  pthread_mutex_t lock;
  int running, shown;
  const char *label;
  int done, total;
  double since;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

double cli_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *watch(void *unused) {
  (void)unused;
  for (;;) {
    nanosleep(&(struct timespec){.tv_nsec = 200 * 1000 * 1000}, NULL);
    pthread_mutex_lock(&state.lock);
    double elapsed = cli_seconds() - state.since;
    if (state.label != NULL && elapsed > 1) {
      state.shown = 1;
      fprintf(stderr, "\r\033[K%s", state.label);
      if (state.total > 0) fprintf(stderr, " %d/%d", state.done, state.total);
      fprintf(stderr, ", %.0f s", elapsed);
      fflush(stderr);
    }
    pthread_mutex_unlock(&state.lock);
  }
  return NULL; /* for compilers that do not see that the loop never ends */
}

void cli_progress(const char *label, int done, int total) {
  static int terminal = -1;
  if (terminal < 0) terminal = isatty(STDERR_FILENO);
  if (!terminal) return;
  pthread_mutex_lock(&state.lock);
  if (state.label == NULL) state.since = cli_seconds();
  state.label = label;
  state.done = done;
  state.total = total;
  if (!state.running) {
    pthread_t thread;
    state.running = pthread_create(&thread, NULL, watch, NULL) == 0 && pthread_detach(thread) == 0;
  }
  pthread_mutex_unlock(&state.lock);
}

void cli_progress_end(void) {
  pthread_mutex_lock(&state.lock);
  if (state.shown) {
    fputs("\r\033[K", stderr);
    fflush(stderr);
  }
  state.shown = 0;
  state.label = NULL;
  pthread_mutex_unlock(&state.lock);
}

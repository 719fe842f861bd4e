/* The built-in executor. A round is opened under the lock and closed only when every thread that
 * joined it has left: a thread that wakes late finds the round closed and cannot touch the counters
 * of the next one. Each thread has a lot, a run of slices of its own, and helps in the others' when
 * done: call after call it meets the same slices, hence the same states, while they are in its
 * cache.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "exec/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "util/allocate.h"

/* One thread's place; the caller has the first. */
typedef struct seat {
  _Alignas(64) atomic_int_fast64_t next; /* slice of the lot to be taken next */
  int64_t end;
  rdi_pool *pool;
  pthread_t thread;
} seat;

struct rdi_pool {
  rd_allocator allocator;
  size_t bytes;
  pid_t pid;
  int32_t wanted, started; /* threads beside the caller */
  pthread_mutex_t lock;
  pthread_cond_t work, done;
  int open, stop;
  rd_slice_fn fn;
  void *arg;
  int64_t lots;                   /* of the open round */
  _Alignas(64) atomic_uint round; /* number of the latest round, written under the lock */
  _Alignas(64) atomic_int active; /* threads inside the open round, written under the lock */
  seat seats[];
};

/* About ten microseconds: rounds of one call, and calls of neighbouring layers, follow each other
 * closer than a sleeping thread wakes. */
enum { SPINS = 400 };

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void pull(rdi_pool *pool, int64_t self, rd_slice_fn fn, void *arg, int64_t lots) {
  for (int64_t i = 0; i < lots; i++) {
    seat *lot = &pool->seats[(self + i) % lots];
    /* Looking first keeps helpers from writing to a line that its owner still needs. */
    while (atomic_load_explicit(&lot->next, memory_order_relaxed) < lot->end) {
      const int64_t slice = atomic_fetch_add_explicit(&lot->next, 1, memory_order_relaxed);
      if (slice >= lot->end) break;
      fn(arg, slice);
    }
  }
}

static void *worker(void *own_seat) {
  rdi_pool *pool = ((seat *)own_seat)->pool;
  const int64_t self = (seat *)own_seat - pool->seats;
  unsigned seen = 0;
  for (;;) {
    for (int i = 0; i < SPINS && atomic_load_explicit(&pool->round, memory_order_relaxed) == seen;
         i++)
      relax();
    pthread_mutex_lock(&pool->lock);
    while (!pool->stop && atomic_load_explicit(&pool->round, memory_order_relaxed) == seen)
      pthread_cond_wait(&pool->work, &pool->lock);
    if (pool->stop) break;
    seen = atomic_load_explicit(&pool->round, memory_order_relaxed);
    if (!pool->open) { /* woken too late: stay awake for the round that may follow at once */
      pthread_mutex_unlock(&pool->lock);
      continue;
    }
    atomic_fetch_add_explicit(&pool->active, 1, memory_order_relaxed);
    const rd_slice_fn fn = pool->fn;
    void *const arg = pool->arg;
    const int64_t lots = pool->lots;
    pthread_mutex_unlock(&pool->lock);
    pull(pool, self, fn, arg, lots);
    pthread_mutex_lock(&pool->lock);
    if (atomic_fetch_sub_explicit(&pool->active, 1, memory_order_release) == 1 && !pool->open)
      pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->lock);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

static void stop_and_join(rdi_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  pool->stop = 1;
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->lock);
  for (int32_t i = 0; i < pool->started; i++) pthread_join(pool->seats[i + 1].thread, NULL);
  pool->started = 0;
  pool->stop = 0;
}

/* Sets up the locks and starts the threads with all signals blocked: signals are the application's.
 */
static rd_status start(rdi_pool *pool) {
  pool->pid = getpid();
  pool->started = 0;
  pool->open = pool->stop = 0;
  atomic_init(&pool->round, 0);
  atomic_init(&pool->active, 0);
  if (pthread_mutex_init(&pool->lock, NULL)) return RD_E_SYSTEM;
  if (pthread_cond_init(&pool->work, NULL)) goto no_work;
  if (pthread_cond_init(&pool->done, NULL)) goto no_done;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = 0;
  while (pool->started < pool->wanted && !failed) {
    seat *place = &pool->seats[pool->started + 1];
    place->pool = pool;
    failed = pthread_create(&place->thread, NULL, worker, place);
    if (!failed) pool->started++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!failed) return RD_OK;
  stop_and_join(pool);
  pthread_cond_destroy(&pool->done);
no_done:
  pthread_cond_destroy(&pool->work);
no_work:
  pthread_mutex_destroy(&pool->lock);
  return RD_E_SYSTEM;
}

rd_status rdi_pool_create(const rd_allocator *allocator, int32_t threads, rdi_pool **out) {
  *out = NULL;
  const int32_t wanted = threads - 1;
  const size_t bytes = sizeof(rdi_pool) + (size_t)threads * sizeof(seat);
  rdi_pool *pool = rdi_allocate(allocator, bytes, 64);
  if (!pool) return RD_E_NOMEM;
  memset(pool, 0, bytes);
  pool->allocator = *allocator;
  pool->bytes = bytes;
  pool->wanted = wanted;
  const rd_status status = start(pool);
  if (status != RD_OK)
    allocator->release(allocator->self, pool, bytes);
  else
    *out = pool;
  return status;
}

void rdi_pool_destroy(rdi_pool *pool) {
  if (!pool) return;
  /* In a child of fork() the threads are not there and the locks may be in any state. */
  if (pool->pid == getpid()) {
    stop_and_join(pool);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
  }
  const rd_allocator allocator = pool->allocator;
  allocator.release(allocator.self, pool, pool->bytes);
}

void rdi_pool_run(rdi_pool *pool, rd_slice_fn fn, void *arg, int64_t n) {
  if (n > 1 && pool->wanted > 0 && pool->pid != getpid() && start(pool) != RD_OK)
    pool->pid = 0; /* no threads in this child; try again on the next call */
  if (n <= 1 || pool->started == 0) {
    for (int64_t i = 0; i < n; i++) fn(arg, i);
    return;
  }
  const int64_t seats = pool->started + 1, lots = n < seats ? n : seats;
  pthread_mutex_lock(&pool->lock);
  pool->fn = fn;
  pool->arg = arg;
  pool->lots = lots;
  for (int64_t i = 0, first = 0; i < lots; i++) {
    atomic_store_explicit(&pool->seats[i].next, first, memory_order_relaxed);
    first += n / lots + (i < n % lots);
    pool->seats[i].end = first;
  }
  pool->open = 1;
  atomic_fetch_add_explicit(&pool->round, 1, memory_order_relaxed);
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->lock);

  pull(pool, 0, fn, arg, lots);

  pthread_mutex_lock(&pool->lock);
  pool->open = 0;
  pthread_mutex_unlock(&pool->lock);
  for (int i = 0; i < SPINS && atomic_load_explicit(&pool->active, memory_order_acquire); i++)
    relax();
  pthread_mutex_lock(&pool->lock);
  while (atomic_load_explicit(&pool->active, memory_order_relaxed))
    pthread_cond_wait(&pool->done, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
}

int32_t rdi_cpu_count(void) {
  cpu_set_t set[16]; /* the kernel refuses a mask shorter than its own: room for 16384 CPUs */
  if (sched_getaffinity(0, sizeof set, set)) return 1;
  const int count = CPU_COUNT_S(sizeof set, set);
  return count > 0 ? count : 1;
}

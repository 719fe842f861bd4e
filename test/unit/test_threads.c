/* The built-in pool: every slice once, whatever the number of slices, rounds and threads; fork. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/pool.h"

static void *plain_alloc(void *self, size_t size, size_t align) {
  (void)self;
  return aligned_alloc(align, (size + align - 1) / align * align);
}

static void plain_release(void *self, void *p, size_t size) {
  (void)self;
  (void)size;
  free(p);
}

static const rd_allocator plain = {plain_alloc, plain_release, NULL};

enum { MOST = 100 };

typedef struct counts {
  atomic_int slice[MOST];
} counts;

static void count(void *arg, int64_t i) {
  counts *c = arg;
  atomic_fetch_add(&c->slice[i], 1);
}

/* 0 when each of n slices ran exactly once and no other did. */
static int wrong(rdi_pool *pool, int64_t n) {
  counts c = {0};
  rdi_pool_run(pool, count, &c, n);
  for (int i = 0; i < MOST; i++)
    if (atomic_load(&c.slice[i]) != (i < n)) return 1;
  return 0;
}

static void each_slice_once(void **state) {
  (void)state;
  for (int32_t threads = 1; threads <= 16; threads += 5) {
    rdi_pool *pool;
    assert_int_equal(rdi_pool_create(&plain, threads, &pool), RD_OK);
    for (int64_t n = 0; n <= MOST; n++) assert_false(wrong(pool, n));
    for (int round = 0; round < 2000; round++) assert_false(wrong(pool, 2 + round % 7));
    rdi_pool_destroy(pool);
  }
}

static void slow_threads_wake_late(void **state) {
  (void)state;
  rdi_pool *pool;
  assert_int_equal(rdi_pool_create(&plain, 4, &pool), RD_OK);
  for (int round = 0; round < 50; round++) {
    assert_false(wrong(pool, 8));
    usleep(200); /* longer than the spinning, so that workers sleep in between */
  }
  rdi_pool_destroy(pool);
}

static void in_child(rdi_pool *pool) {
  for (int round = 0; round < 100; round++)
    if (wrong(pool, 9)) _exit(1);
  rdi_pool_destroy(pool);
  _exit(0);
}

static void fork_makes_the_pool_anew(void **state) {
  (void)state;
#if defined(__SANITIZE_THREAD__)
  skip(); /* ThreadSanitizer refuses threads in a child of a program with threads */
#endif
  rdi_pool *pool;
  assert_int_equal(rdi_pool_create(&plain, 3, &pool), RD_OK);
  assert_false(wrong(pool, 9));
  for (int child = 0; child < 5; child++) {
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) in_child(pool);
    int code;
    assert_int_equal(waitpid(pid, &code, 0), pid);
    assert_true(WIFEXITED(code));
    assert_int_equal(WEXITSTATUS(code), 0);
    assert_false(wrong(pool, 9)); /* the parent's threads are as before */
  }
  const pid_t pid = fork(); /* a child that only frees */
  if (pid == 0) {
    rdi_pool_destroy(pool);
    _exit(0);
  }
  int code;
  assert_int_equal(waitpid(pid, &code, 0), pid);
  assert_int_equal(code, 0);
  rdi_pool_destroy(pool);
}

typedef struct masks {
  pthread_t caller;
  atomic_int workers, open;
} masks;

/* Counts what signals a worker would take; the caller waits until there is one. */
static void look(void *arg, int64_t slice) {
  masks *m = arg;
  (void)slice;
  if (pthread_equal(pthread_self(), m->caller)) {
    while (!atomic_load(&m->workers)) sched_yield();
    return;
  }
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  for (int s = 1; s < 32; s++)
    if (s != SIGKILL && s != SIGSTOP && !sigismember(&blocked, s)) atomic_fetch_add(&m->open, 1);
  atomic_fetch_add(&m->workers, 1);
}

/* Signals are the application's: workers take none, and the caller's mask stays. */
static void workers_block_signals(void **state) {
  (void)state;
  sigset_t some, before, after;
  sigemptyset(&some);
  sigaddset(&some, SIGUSR2);
  pthread_sigmask(SIG_SETMASK, &some, &before);
  rdi_pool *pool;
  assert_int_equal(rdi_pool_create(&plain, 3, &pool), RD_OK);
  pthread_sigmask(SIG_SETMASK, &before, &after);
  for (int s = 1; s < 32; s++) assert_int_equal(sigismember(&after, s), s == SIGUSR2);
  masks m = {.caller = pthread_self()};
  rdi_pool_run(pool, look, &m, 3);
  assert_true(atomic_load(&m.workers) >= 1);
  assert_int_equal(atomic_load(&m.open), 0);
  rdi_pool_destroy(pool);
}

static void counts_cpus(void **state) {
  (void)state;
  assert_true(rdi_cpu_count() >= 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_slice_once),
      cmocka_unit_test(slow_threads_wake_late),
      cmocka_unit_test(fork_makes_the_pool_anew),
      cmocka_unit_test(workers_block_signals),
      cmocka_unit_test(counts_cpus),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

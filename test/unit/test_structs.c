/* Parameter structs of other sizes. This program brings a history of its own (it links against the
 * static library and defines rdi_struct_sizes itself): as if the last fields of some structs had been
 * appended by a later version. Callers' structs end where a page begins that may not be touched, so
 * reading or writing a byte that the caller does not have is a crash. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#endif
#include "unit.h"

#include <sys/mman.h>
#include <unistd.h>

#include "core/structs.h"
#include "layer.h"

enum { /* the artificial older sizes */
       OLD_OPTIONS = offsetof(rd_context_options, message),
       OLD_PROBLEM = offsetof(rd_problem, reserved),
       OLD_INFO = offsetof(rd_plan_info, record_bytes_per_token),
       OLD_SEQ = offsetof(rd_sequences, parents),
       OLD_ACT = offsetof(rd_activations, out), /* not a version that could be; only taken */
       OLD_RECORDS = offsetof(rd_records, made.reserved),
       OLD_FLASH = offsetof(rd_flash_kda_params, numerics)
};

const size_t rdi_struct_sizes[RDI_STRUCTS][RDI_SIZES] = {
    [RDI_STRUCT_CONTEXT_OPTIONS] = {OLD_OPTIONS, sizeof(rd_context_options)},
    [RDI_STRUCT_PROBLEM] = {OLD_PROBLEM, sizeof(rd_problem)},
    [RDI_STRUCT_PLAN_INFO] = {OLD_INFO, sizeof(rd_plan_info)},
    [RDI_STRUCT_SEQUENCES] = {OLD_SEQ, sizeof(rd_sequences)},
    [RDI_STRUCT_ACTIVATIONS] = {OLD_ACT, sizeof(rd_activations)},
    [RDI_STRUCT_SLOTS] = {sizeof(rd_slots)},
    [RDI_STRUCT_RECORDS] = {OLD_RECORDS, sizeof(rd_records)},
    [RDI_STRUCT_CHUNK_GATED_DELTA_RULE] = {sizeof(rd_chunk_gated_delta_rule_params)},
    [RDI_STRUCT_FUSED_RECURRENT_KDA_REPLAYSSM] = {sizeof(rd_fused_recurrent_kda_replayssm_params)},
    [RDI_STRUCT_COMMIT_RECURRENT_KDA_REPLAYSSM] = {sizeof(
        rd_commit_recurrent_kda_replayssm_params)},
    [RDI_STRUCT_FLASH_KDA_METADATA] = {sizeof(rd_flash_kda_metadata_params)},
    [RDI_STRUCT_FLASH_KDA] = {OLD_FLASH, sizeof(rd_flash_kda_params)},
    [RDI_STRUCT_FUSED_RECURRENT_KDA] = {sizeof(rd_fused_recurrent_kda_params)},
};

/* A copy of the first `size` bytes of a struct that ends where a forbidden page begins. */
static void *at_the_edge(const void *from, size_t size) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  assert_true(size <= page);
  char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(p != MAP_FAILED);
  assert_int_equal(mprotect(p + page, page, PROT_NONE), 0);
  char *s = p + page - size;
  memcpy(s, from, size);
  memcpy(s, &size, sizeof size);
  return s;
}

static void release_edge(void *s) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  munmap((void *)((uintptr_t)s / page * page), 2 * page);
}

static rd_context *context(void) {
  rd_context_options full;
  rd_context_options_init(&full);
  full.threads = 1;
  full.message = (char *)1; /* behind the old size: not seen */
  rd_context_options *o = at_the_edge(&full, OLD_OPTIONS);
  rd_context *ctx;
  assert_int_equal(rd_context_create(o, &ctx), RD_OK);
  release_edge(o);
  return ctx;
}

/* The same steps with whole structs and with old ones: equal bytes everywhere. */
static void old_callers(void **state) {
  (void)state;
  rd_context *ctx = context();
  static layer a, b;
  layer_init(&a, 5);
  layer_init(&b, 5);
  rd_problem *p = at_the_edge(&b.problem, OLD_PROBLEM);
  rd_plan *plan, *old;
  assert_int_equal(rd_plan_create(ctx, &a.problem, &plan), RD_OK);
  assert_int_equal(rd_plan_create(ctx, p, &old), RD_OK);

  rd_plan_info whole, *info;
  rd_plan_info_init(&whole);
  assert_int_equal(rd_plan_get_info(plan, &whole), RD_OK);
  info = at_the_edge(&whole, OLD_INFO);
  memset((char *)info + sizeof(size_t), 0xa5, OLD_INFO - sizeof(size_t));
  assert_int_equal(rd_plan_get_info(old, info), RD_OK);
  assert_int_equal(info->struct_size, OLD_INFO);
  assert_memory_equal((char *)info + sizeof(size_t), (char *)&whole + sizeof(size_t),
                      OLD_INFO - sizeof(size_t));

  rd_sequences *seq = at_the_edge(&b.seq, OLD_SEQ);
  rd_records *rec = at_the_edge(&b.records, OLD_RECORDS);
  assert_int_equal(layer_step(ctx, plan, &a), RD_OK);
  assert_int_equal(rd_verify(ctx, old, seq, &b.act, &b.state, rec), RD_OK);
  assert_int_equal(rec->struct_size, OLD_RECORDS);
  assert_int_equal(rd_commit(ctx, old, rec, &b.accepted, &b.state), RD_OK);
  assert_int_equal(rec->made.consumed, 1);
  assert_int_equal(rd_commit(ctx, old, rec, &b.accepted, &b.state), RD_E_CONSUMED);
  assert_int_equal(rd_decode(ctx, old, seq, &b.act, &b.state, NULL, NULL), RD_OK);
  assert_memory_equal(&a.records.made, &rec->made, OLD_RECORDS - offsetof(rd_records, made));
  assert_memory_equal(a.out, b.out, sizeof a.out);
  assert_memory_equal(a.pool, b.pool, sizeof a.pool);

  /* Fields that an old caller lacks are zero, here an absent output. */
  rd_activations *act = at_the_edge(&b.act, OLD_ACT);
  assert_int_equal(rd_decode(ctx, old, seq, act, &b.state, NULL, NULL), RD_E_NULL);
  assert_non_null(strstr(rd_last_error(ctx), "out"));

  /* Whether a size is known is all that counts: one between two versions is none. */
  act->struct_size -= 8;
  assert_int_equal(rd_decode(ctx, old, seq, act, &b.state, NULL, NULL), RD_E_STRUCT_SIZE);
  b.seq.struct_size += 8;
  assert_int_equal(rd_decode(ctx, old, &b.seq, &b.act, &b.state, NULL, NULL), RD_E_STRUCT_SIZE);
  release_edge(act);
  release_edge(seq);
  release_edge(rec);
  release_edge(info);
  release_edge(p);
  rd_plan_destroy(plan);
  rd_plan_destroy(old);
  rd_context_destroy(ctx);
}

/* An operator's struct goes the same way: numerics, which the old one lacks, reads as zero. */
static void old_operator(void **state) {
  (void)state;
  rd_context *ctx = context();
  rd_flash_kda_params full, *p;
  rd_flash_kda_init(&full);
  p = at_the_edge(&full, OLD_FLASH);
  assert_int_equal(rd_flash_kda(ctx, p), RD_E_ENUM);
  assert_non_null(strstr(rd_last_error(ctx), "numerics"));
  p->struct_size = OLD_FLASH - 4;
  assert_int_equal(rd_flash_kda(ctx, p), RD_E_STRUCT_SIZE);
  release_edge(p);
  rd_context_destroy(ctx);
}

/* _init_sized writes what the caller has, and no more, whichever side is older. */
static void inits(void **state) {
  (void)state;
  rd_problem whole;
  rd_problem_init(&whole);
  char zero[sizeof whole] = {0};
  rd_problem *p = at_the_edge(zero, OLD_PROBLEM);
  rd_problem_init_sized(p, OLD_PROBLEM);
  assert_int_equal(p->struct_size, OLD_PROBLEM);
  assert_memory_equal((char *)p + sizeof(size_t), (char *)&whole + sizeof(size_t),
                      OLD_PROBLEM - sizeof(size_t));
  release_edge(p);
  struct {
    rd_problem problem;
    int64_t later[3];
  } newer;
  memset(&newer, 0xa5, sizeof newer);
  rd_problem_init_sized(&newer.problem, sizeof newer - 8);
  assert_int_equal(newer.problem.struct_size, sizeof newer - 8);
  assert_int_equal(newer.later[1], 0);
  assert_int_equal(newer.later[2], (int64_t)0xa5a5a5a5a5a5a5a5u);
  rd_problem_init(NULL);
  rd_slots_init(NULL);
}

/* Reserved fields may get a meaning: nobody may have put anything there. */
static void reserved(void **state) {
  (void)state;
  rd_context *ctx = context();
  static layer l;
  layer_init(&l, 5);
  rd_plan *plan;
  l.problem.reserved[7] = 1;
  assert_int_equal(rd_plan_create(ctx, &l.problem, &plan), RD_E_PRESENCE);
  assert_non_null(strstr(rd_last_error(ctx), "problem"));
  rd_context_options o;
  rd_context_options_init(&o);
  o.executor.reserved = 1;
  rd_context *other;
  assert_int_equal(rd_context_create(&o, &other), RD_E_PRESENCE);
  assert_null(other);
  rd_context_destroy(ctx);
}

/* Why there is no context. */
static void message(void **state) {
  (void)state;
  char text[64];
  rd_context_options o;
  rd_context_options_init(&o);
  o.message = text;
  o.message_size = sizeof text;
  o.threads = -3;
  rd_context *ctx;
  assert_int_equal(rd_context_create(&o, &ctx), RD_E_ENUM);
  assert_non_null(strstr(text, "threads"));
  assert_non_null(strstr(text, "-3"));
  o.message_size = 4;
  text[4] = 'x';
  assert_int_equal(rd_context_create(&o, &ctx), RD_E_ENUM);
  assert_string_equal(text, "thr");
  assert_int_equal(text[4], 'x');
  o.threads = 1;
  assert_int_equal(rd_context_create(&o, &ctx), RD_OK);
  assert_string_equal(text, "");
  rd_context_destroy(ctx);
}

/* Copies of records that share a number notice one another's commits and verifies. */
static void generations(void **state) {
  (void)state;
  rd_context *ctx = context();
  static layer l;
  layer_init(&l, 7);
  rd_plan *plan;
  assert_int_equal(rd_plan_create(ctx, &l.problem, &plan), RD_OK);
  int64_t generation = INT64_MAX; /* it may wrap */
  l.records.generation = &generation;
  assert_int_equal(rd_verify(ctx, plan, &l.seq, &l.act, &l.state, &l.records), RD_OK);
  rd_records copy = l.records, again = l.records;
  assert_int_equal(rd_commit(ctx, plan, &copy, &l.accepted, &l.state), RD_OK);
  static float pool[sizeof l.pool / sizeof l.pool[0]];
  memcpy(pool, l.pool, sizeof pool);
  assert_int_equal(rd_commit(ctx, plan, &again, &l.accepted, &l.state), RD_E_CONSUMED);
  assert_int_equal(rd_commit(ctx, plan, &l.records, &l.accepted, &l.state), RD_E_CONSUMED);
  assert_int_equal(rd_commit(ctx, plan, &copy, &l.accepted, &l.state), RD_E_CONSUMED);
  assert_memory_equal(pool, l.pool, sizeof pool);

  assert_int_equal(rd_verify(ctx, plan, &l.seq, &l.act, &l.state, &l.records), RD_OK);
  copy = l.records;
  assert_int_equal(rd_verify(ctx, plan, &l.seq, &l.act, &l.state, &l.records), RD_OK);
  assert_int_equal(rd_commit(ctx, plan, &copy, &l.accepted, &l.state), RD_E_CONSUMED);
  assert_int_equal(rd_commit(ctx, plan, &l.records, &l.accepted, &l.state), RD_OK);
  rd_plan_destroy(plan);
  rd_context_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(old_callers), cmocka_unit_test(old_operator),
                                     cmocka_unit_test(inits),       cmocka_unit_test(reserved),
                                     cmocka_unit_test(message),     cmocka_unit_test(generations)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

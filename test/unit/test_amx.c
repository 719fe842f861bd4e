/* The permission to use AMX and what asking for it changes. Each case runs in a child of a process that has
 * not asked. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "cpu/amx.h"
#include "redelta/exec.h"

enum { SMALL = 8192, SKIP = 77 };
#define AMX (RD_ISA_AMX | RD_ISA_AVX512)

static void in_a_child(int (*body)(void)) {
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) _exit(body());
  int status = 0;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  if (WEXITSTATUS(status) == SKIP) skip();
  assert_int_equal(WEXITSTATUS(status), 0);
}

static int real(void) { return (rd_isa_usable() & RD_ISA_AMX) && !rd_isa_emulated(); }
static int built(void) { return real() && (rd_isa_built() & RD_ISA_AMX); }

static int alternate_stack(size_t size) {
  static char memory[1 << 16];
  return sigaltstack(&(stack_t){.ss_sp = memory, .ss_size = size}, NULL);
}

/* rd_context_create with `mask`; what it chose is in *chosen: 1 when some slot runs AMX. */
static rd_status make(uint32_t mask, int *chosen, char why[200]) {
  rd_context_options o;
  rd_context_options_init(&o);
  o.threads = 1, o.isa_mask = mask, o.message = why, o.message_size = 200;
  rd_context *ctx;
  const rd_status status = rd_context_create(&o, &ctx);
  *chosen = 0;
  for (int32_t i = 0; i < rd_kernel_slots(); i++) *chosen |= rd_kernel_isa(ctx, i) == RD_ISA_AMX;
  rd_context_destroy(ctx);
  return status;
}

static int refused_body(void) {
  if (!real()) return SKIP;
  if (getauxval(AT_MINSIGSTKSZ) <= SMALL || alternate_stack(SMALL) != 0) return SKIP;
  if (rdi_amx_permit()) return 1;
  if (!built()) return 0;
  int amx;
  char why[200];
  if (make(0, &amx, why) != RD_OK || amx) return 2;
  if (make(RD_ISA_ALL, &amx, why) != RD_OK || amx) return 3;
  if (make(AMX, &amx, why) != RD_E_ISA || !strstr(why, "isa_mask") || !strstr(why, "refuses"))
    return 4;
  if (make(RD_ISA_AVX512, &amx, why) != RD_OK) return 5;
  const stack_t off = {.ss_flags = SS_DISABLE};
  if (sigaltstack(&off, NULL) != 0) return 6;
  return make(AMX, &amx, why) == RD_OK && amx ? 0 : 7;
}

static int granted_body(void) {
  if (!real()) return SKIP;
  if (getauxval(AT_MINSIGSTKSZ) <= SMALL) return SKIP;
  if (rd_isa_usable() == 0 || alternate_stack(SMALL) != 0) return 1; /* looking asks for nothing */
  const stack_t off = {.ss_flags = SS_DISABLE};
  if (sigaltstack(&off, NULL) != 0) return 2;
  int amx;
  char why[200];
  if (make(RD_ISA_AVX512, &amx, why) != RD_OK || amx) return 3;
  if (alternate_stack(SMALL) != 0 || sigaltstack(&off, NULL) != 0)
    return 4; /* nor does another mask */
  if (built() ? make(0, &amx, why) != RD_OK || !amx : !rdi_amx_permit()) return 5;
  if (alternate_stack(SMALL) == 0 || errno != ENOMEM) return 6;
  if (alternate_stack(1 << 16) != 0) return 7;
  const pid_t pid = fork();
  if (pid == 0) _exit(rdi_amx_permit() && alternate_stack(SMALL) != 0 ? 0 : 1);
  int status = 1;
  return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 8;
}

static void a_small_signal_stack_refuses_it(void **state) {
  (void)state;
  in_a_child(refused_body);
}

static void asking_forbids_small_signal_stacks(void **state) {
  (void)state;
  in_a_child(granted_body);
}

static void it_needs_avx512_beside(void **state) {
  (void)state;
  int amx;
  char why[200];
  assert_int_equal(make(RD_ISA_AMX, &amx, why), RD_E_ISA);
  assert_int_equal(make(RD_ISA_AMX | RD_ISA_SCALAR, &amx, why), RD_E_ISA);
  assert_non_null(strstr(why, "isa_mask"));
  assert_string_equal(rd_isa_name(RD_ISA_AMX), "amx");
  assert_int_equal(rd_isa_emulated() & ~(uint32_t)RD_ISA_AMX, 0);
  assert_int_equal(rd_isa_emulated() & ~rd_isa_built(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_small_signal_stack_refuses_it),
      cmocka_unit_test(asking_forbids_small_signal_stacks),
      cmocka_unit_test(it_needs_avx512_beside),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
